"""What is done to a cluster, and when: drawn from a seed, written down, and read again to be repeated.

Faults come in rounds: some of the nemeses asked for, overlapping, and then quiet, so that the cluster recovers. Those
that have not been yet come first, so that even in the shortest run each comes at least once. Whom a fault meets is
decided when it happens (who leads then?) and is in the history.
"""

import random
from math import ceil
from pathlib import Path

import msgspec

from raftka.chaos.errors import ChaosError
from raftka.error_text import short_reason_of

# Before the first round, and after the last one: a run without anything to compare with proves little.
WARM_UP_SECONDS = 8.0
COOL_DOWN_SECONDS = 12.0
_ROUND_SECONDS = (5.0, 14.0)
_STAGGER_SECONDS = 3.0
_QUIET_SECONDS = (6.0, 12.0)
# A leader whose append hangs for 3 s leaves office: so does one that hangs for longer, and not one that hangs so long.
_SHORT_HANG_SECONDS = (0.5, 2.5)
# More at a time would leave little that is worth telling apart; only where there is no time for another round are more.
_AT_ONCE = 3


class Fault(msgspec.Struct, frozen=True):
    """One thing that is done.

    Attributes:
        at: When, in seconds of the run.
        seconds: For how long; 0: there is nothing to be taken back.
        nemesis: Which of the nemeses asked for.
        kind: What it does.
        target: To whom: one, leader (of some partition), controller, majority, all, or `marked`, the one broker whose
            disk may be damaged.
    """

    at: float
    seconds: float
    nemesis: str
    kind: str
    target: str


class Schedule(msgspec.Struct):
    """All faults of a run, in order; `seed` also decides what is drawn while it runs."""

    seed: int
    seconds: float
    faults: list[Fault]

    def save(self, path: Path) -> None:
        """Write it down."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    @classmethod
    def load(cls, path: Path) -> "Schedule":
        """Read one.

        Raises:
            ChaosError: It is not a schedule.
        """
        try:
            schedule = msgspec.json.decode(path.read_bytes(), type=cls)
        except OSError as error:
            raise ChaosError(f"--schedule {path}: {short_reason_of(error)}") from error
        except msgspec.MsgspecError as error:
            raise ChaosError(f"{path} is not a schedule: {error}") from error
        for fault in schedule.faults:
            if fault.target not in NEMESES.get(fault.nemesis, {}).get(fault.kind, ()):
                told = f"{fault.nemesis}: {fault.kind} to {fault.target}"
                raise ChaosError(f"{path} is not a schedule: no nemesis does {told}")
        return schedule


_ONE, _FEW = ("one", "leader", "controller"), ("one", "leader", "controller", "majority")
# What each nemesis can do, and to whom.
NEMESES: dict[str, dict[str, tuple[str, ...]]] = {
    "kill": {"kill": (*_FEW, "all")},
    "pause": {"pause": _FEW},
    "partition": {
        "halves": ("majority",),
        "one-way": _ONE,
        "isolate-from-peers": _ONE,
        "isolate-from-all": _ONE,
        "throttle": _ONE,
    },
    "disk": {"full": (*_ONE, "all"), "bit-flip": ("marked",)},
    "transfer": {"transfer": ("all",)},
    "hang-append": {"hang-append": _ONE, "hang-append-shortly": _ONE},
    "vanish-directory": {"vanish-directory": _ONE},
    "few-descriptors": {"few-descriptors": (*_ONE, "all")},
    "membership": {
        "move": ("all",),
        "change-count": ("all",),
        "drain": _ONE,
        "decommission": _ONE,
        "join": ("all",),
        "remove": ("all",),
        "replace-disk": _ONE,
        "old-disk-returns": ("all",),
    },
}
# What needs something that an earlier fault has left: a broker that joined, a disk that was replaced.
_AFTER = {"remove": "join", "old-disk-returns": "replace-disk"}


def draw_schedule(seed: int, nemeses: list[str], minutes: float, acks: str, *, has_partitions: bool = True) -> Schedule:
    """Return a schedule in which each nemesis comes; the same for the same arguments.

    A disk is filled before bits of it are flipped, and flipped only where there are partitions: a segment has to be
    closed by then.

    At acks=1, every partition round isolates a leader from its peers but not from its clients: that is what records
    acknowledged by it alone are lost by.
    """
    rng = random.Random(f"{seed} schedule")
    seconds = minutes * 60
    faults: list[Fault] = []
    at = WARM_UP_SECONDS
    longest = min(_ROUND_SECONDS[1], max(2.0, seconds / 4))
    missing = rng.sample(sorted(nemeses), len(nemeses))
    while nemeses:
        length = min(rng.uniform(*_ROUND_SECONDS), longest)
        if at + length > seconds - COOL_DOWN_SECONDS and faults:
            break
        # So many more rounds there will be, however long they are.
        rounds = 1 + max(0, int((seconds - COOL_DOWN_SECONDS - at - longest) // (longest + _QUIET_SECONDS[1])))
        size = max(ceil(len(missing) / rounds), rng.randint(1, min(_AT_ONCE, len(nemeses))))
        chosen, missing = missing[:size], missing[size:]
        chosen += rng.sample([name for name in sorted(nemeses) if name not in chosen], size - len(chosen))
        for nemesis in chosen:
            begin = at + rng.uniform(0, min(_STAGGER_SECONDS, length / 3))
            is_filled = any(fault.nemesis == "disk" for fault in faults)
            kind = rng.choice(sorted(NEMESES[nemesis]))
            if kind == "bit-flip" and not (is_filled and has_partitions):
                kind = "full"
            if kind in _AFTER and not _is_left(faults, _AFTER[kind], kind):
                kind = _AFTER[kind]
            target = rng.choice(NEMESES[nemesis][kind])
            if nemesis == "partition" and acks == "1":
                kind, target = "isolate-from-peers", "leader"
            lasts = 0.0 if kind == "bit-flip" else at + length - begin
            if kind == "hang-append-shortly":
                lasts = min(lasts, rng.uniform(*_SHORT_HANG_SECONDS))
            faults.append(Fault(round(begin, 3), round(lasts, 3), nemesis, kind, target))
        at += length + rng.uniform(*_QUIET_SECONDS)
    return Schedule(seed, seconds, sorted(faults, key=lambda fault: fault.at))


def _is_left(faults: list[Fault], kind: str, taken_by: str) -> bool:
    """Whether more faults of one kind than of the other have been drawn."""
    kinds = [fault.kind for fault in faults]
    return kinds.count(kind) > kinds.count(taken_by)
