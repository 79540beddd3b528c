"""Linearizability of registers, key by key: just-in-time linearization after Wing and Gong, and Lowe.

A history is linearizable iff it is key by key (P-compositionality, Herlihy and Wing 1990). For one key the events are
taken in the order of time. What is kept is the set of configurations that explain everything so far: the register's
value, and which of the operations that are under way have already taken effect (G. Lowe, "Testing for linearizability",
2017, with the memo that keeps each configuration once). An operation takes effect at the latest when its return is
met; so the window that is looked at is what is under way, however long the history is. What changes nothing, a read or
a refused compare-and-set, takes effect as soon as it can. If no configuration is left, the return at hand cannot be
explained.

The number of configurations is bounded by the values times 2 to the power of what is under way. Operations without an
end stay under way for ever, so those that cannot matter are dropped first.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from raftka.check.errors import HistoryError
from raftka.check.register_history import (
    CAS_DONE,
    CAS_REFUSED,
    NEVER,
    NULL,
    READ,
    WRITE,
    RegisterHistory,
    Step,
)
from raftka.check.verdict import Anomaly, Report, Verdict

# Some gigabytes and minutes: beyond it the window is named and nothing is claimed.
CONFIGURATIONS_MAX = 2_000_000
_SHOWN = 12
_SHOWN_VALUES = 3


def check_register(history: RegisterHistory, model: str, configurations_max: int = CONFIGURATIONS_MAX) -> Verdict:
    """Return the verdict on a history of registers.

    One key that has no explanation is enough to know, so keys whose window is too wide are only named beside it.

    Raises:
        HistoryError: No key is wrong, but a window has too many explanations to be searched; it is named.
    """
    return verdict_on_keys(
        (check_key(history, key, configurations_max) for key in history.steps), model, history.operations
    )


@dataclass(frozen=True, slots=True)
class KeyVerdict:
    """What is said of one key.

    Attributes:
        anomaly: Why its operations have no explanation; None: they have one, or nobody knows.
        unjudged: Why nobody knows.
        widest: How many operations were under way at a time.
    """

    anomaly: Anomaly | None
    unjudged: str | None
    widest: int


def check_key(history: RegisterHistory, key: str, configurations_max: int = CONFIGURATIONS_MAX) -> KeyVerdict:
    """Return the verdict on one key: it depends on this key's operations only."""
    search = _Search(history, key, configurations_max)
    try:
        anomaly = search.run()
    except HistoryError as error:
        return KeyVerdict(None, str(error), search.widest)
    return KeyVerdict(anomaly, None, search.widest)


def verdict_on_keys(keys: Iterable[KeyVerdict], model: str, operations: int) -> Verdict:
    """Return the verdict on all keys, given in the order in which the history first has them.

    Raises:
        HistoryError: No key is wrong, but of some nobody knows.
    """
    report = Report()
    verdicts = list(keys)
    anomalies = [each.anomaly for each in verdicts if each.anomaly is not None]
    report.unjudged = [each.unjudged for each in verdicts if each.unjudged is not None]
    if report.unjudged and not anomalies:
        raise HistoryError("; ".join(report.unjudged[:_SHOWN]))
    report.add("not-linearizable", np.arange(len(anomalies)), lambda row: anomalies[row], order=lambda row: (row,))
    report.measures |= {"keys": len(verdicts), "widest-window": max((each.widest for each in verdicts), default=0)}
    return report.verdict(model, operations)


def relevant(steps: list[Step]) -> list[Step]:
    """Return the steps with as few as possible that nobody was told the end of; they stay under way for ever.

    One whose value nobody has met can be left out of every explanation, so it needs none. One whose value has been met,
    and can be of no other, took effect before the first who met it had ended.
    """
    met: dict[int, float] = {}
    makers = Counter(each.new for each in steps if each.kind in (WRITE, CAS_DONE))
    for each in steps:
        if each.kind in (READ, CAS_DONE):
            met[each.expected] = min(each.ret, met.get(each.expected, NEVER))
    # A refused cas may have met any value but the one it names; then nothing can be told to be unmet.
    is_refusal = any(each.kind == CAS_REFUSED for each in steps)
    kept = []
    for each in steps:
        if each.ret != NEVER or is_refusal or each.new in met:
            end = met.get(each.new, NEVER)
            is_cut = each.ret == NEVER and makers[each.new] == 1 and each.new != NULL and end >= each.inv
            kept.append(replace(each, ret=end) if is_cut else each)
    return kept


class _Search:
    """One key."""

    def __init__(self, history: RegisterHistory, key: str, configurations_max: int) -> None:
        self._history = history
        self._key = key
        # Values are numbered as this key first has them, whatever other keys have: what is said of a key, and when its
        # window is too wide, is then the same in a history of this key alone.
        self._numbers = {NULL: NULL}
        self._steps = relevant([self._renumbered(each) for each in history.steps[key]])
        self._values = list(self._numbers)
        self._max = configurations_max
        # Of what is under way: its bit, by number; freed bits are used again.
        self._open: dict[int, Step] = {}
        self._free: list[int] = []
        self.widest = 0

    def run(self) -> Anomaly | None:
        """Return why the key's history has no explanation; None: it has one."""
        width = _width(self._steps)
        # A configuration is one number: the value above, the effects below.
        configurations = {NULL << width}
        slots: dict[int, int] = {}
        self._free = list(range(width - 1, -1, -1))
        for is_return, number in _events(self._steps):
            step = self._steps[number]
            if not is_return:
                slots[number] = slot = self._free.pop()
                self._open[slot] = step
                self.widest = max(self.widest, len(self._open))
                continue
            slot = slots.pop(number)
            after = self._linearized(configurations, slot, width)
            if not after:
                return self._anomaly(step, configurations, width)
            configurations = after
            del self._open[slot]
            self._free.append(slot)
        return None

    def _renumbered(self, step: Step) -> Step:
        expected = self._numbers.setdefault(step.expected, len(self._numbers))
        return replace(step, expected=expected, new=self._numbers.setdefault(step.new, len(self._numbers)))

    def _linearized(self, configurations: set[int], slot: int, width: int) -> set[int]:
        """Return every configuration in which the step at `slot` has taken effect, without its bit."""
        wanted = 1 << slot
        low = (1 << width) - 1
        readers = _Readers(self._open)
        # Of what leaves a value: its bit, what it must find, and all that is so at once when it has taken effect.
        writers = [
            (1 << at, step.kind == WRITE, step.expected, step.new << width | 1 << at | readers.of(step.new))
            for at, step in self._open.items()
            if step.kind in (WRITE, CAS_DONE)
        ]
        seen = _Seen(self._open)
        done: set[int] = set()
        waiting: list[int] = []
        for before in configurations:
            configuration = before | readers.of(before >> width)
            if configuration & wanted:
                done.add(configuration & ~wanted)
            elif seen.add(configuration):
                waiting.append(configuration)
        # Grows while it is walked: those with the fewest effects first.
        for configuration in waiting:
            value = configuration >> width
            effects = configuration & low
            for bit, is_write, expected, after in writers:
                if effects & bit or not (is_write or value == expected):
                    continue
                found = after | effects
                if found & wanted:
                    done.add(found & ~wanted)
                elif seen.add(found):
                    waiting.append(found)
            if seen.size > self._max:
                raise HistoryError(self._too_wide())
        return seen.least(done)

    def _too_wide(self) -> str:
        steps = sorted(self._open.values(), key=lambda step: step.line)
        first, last = (self._history.places.name(steps[at].line) for at in (0, -1))
        endless = sum(step.ret == NEVER for step in steps)
        return (
            f"key {self._key!r}: more than {self._max} ways to explain the window of {len(steps)} operations that are"
            f" under way together, {first} to {last}, {endless} of them without an end; use fewer clients per key, or"
            " more keys"
        )

    def _anomaly(self, step: Step, configurations: set[int], width: int) -> Anomaly:
        values = sorted({each >> width for each in configurations})
        known = [self._history.value(self._values[each]) for each in values[:_SHOWN]]
        shown = ", ".join(known) + (" or more" if len(values) > _SHOWN else "")
        text = (
            f"the operation of {self._history.places.name(step.line)} has no place between its beginning and its end:"
            f" everything that ended before leaves the register at {shown}, and what was under way does not explain it"
        )
        under_way = sorted({each.line for each in self._open.values()} - {step.line})
        proof = {step.line, *under_way[-_SHOWN:]}
        # Where the values come from: those it may have had, and the one that was met.
        for value in [*values[:_SHOWN_VALUES], step.expected]:
            proof |= self._maker(value, step)
        return Anomaly(self._key, text, [self._history.shown(line) for line in sorted(proof)])

    def _maker(self, value: int, step: Step) -> set[int]:
        """Return the line of the last step that had begun before this one ended and leaves the value, if any has."""
        lines = [
            (each.inv, each.line)
            for each in self._steps
            if each.kind in (WRITE, CAS_DONE) and each.new == value != NULL and each.inv <= step.ret
        ]
        return {max(lines)[1]} if lines else set()


class _Readers:
    """What is under way and changes nothing: it takes effect as soon as it can.

    An explanation that waits with it can do nothing that one without it cannot, so it need not be kept.
    """

    def __init__(self, under_way: dict[int, Step]) -> None:
        self._reads: dict[int, int] = {}
        self._refusals: list[tuple[int, int]] = []
        for slot, step in under_way.items():
            if step.kind == READ:
                self._reads[step.expected] = self._reads.get(step.expected, 0) | 1 << slot
            elif step.kind == CAS_REFUSED:
                self._refusals.append((step.expected, 1 << slot))

    def of(self, value: int) -> int:
        """Return the bits of those that can take effect while the register has a value."""
        bits = self._reads.get(value, 0)
        for expected, bit in self._refusals:
            if value != expected:
                bits |= bit
        return bits


class _Seen:
    """The configurations that were met, without those that others make superfluous.

    What has no end need not take effect: of two configurations that differ only in which of these have, the one with
    fewer can do all that the other can. Without this, each of them would double what there is to search.
    """

    def __init__(self, under_way: dict[int, Step]) -> None:
        self._optional = sum(1 << slot for slot, step in under_way.items() if step.ret == NEVER)
        self._all: set[int] = set()
        self._least: dict[int, list[int]] = {}
        self.size = 0

    def add(self, configuration: int) -> bool:
        """Note one; return whether it says something new."""
        if not self._optional:
            before = self.size
            self._all.add(configuration)
            self.size = len(self._all)
            return self.size > before
        return self._add_least(self._least, configuration)

    def least(self, configurations: set[int]) -> set[int]:
        """Return the ones of a set that none of it makes superfluous."""
        if not self._optional:
            return configurations
        least: dict[int, list[int]] = {}
        for each in sorted(configurations, key=lambda each: (each & self._optional).bit_count()):
            self._add_least(least, each)
        return {rest | taken for rest, several in least.items() for taken in several}

    def _add_least(self, least: dict[int, list[int]], configuration: int) -> bool:
        taken = configuration & self._optional
        others = least.setdefault(configuration & ~self._optional, [])
        if any(other & taken == other for other in others):
            return False
        others.append(taken)
        self.size += 1
        return True


def _events(steps: list[Step]) -> list[tuple[bool, int]]:
    """Return calls and returns in the order of time; of the same instant, calls first: intervals are closed."""
    events = [(each.inv, False, number) for number, each in enumerate(steps)]
    events += [(int(each.ret), True, number) for number, each in enumerate(steps) if each.ret != NEVER]
    events.sort()
    return [(is_return, number) for _, is_return, number in events]


def _width(steps: list[Step]) -> int:
    """Return how many steps are under way together at most."""
    under_way = widest = 0
    for is_return, _ in _events(steps):
        under_way += -1 if is_return else 1
        widest = max(widest, under_way)
    return max(1, widest)
