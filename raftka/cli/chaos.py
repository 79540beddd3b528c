"""`raftka chaos`: real processes under real faults, and the verdict on what clients saw."""

import math
import secrets
import sys
from enum import StrEnum
from pathlib import Path

import click

from raftka.cli.exit_codes import DONE, FAILED, UNJUDGED
from raftka.cli.param_types import PATH, BoundedFloat, BoundedInt, EnumChoice
from raftka.dev.supervisor import NODES_MAX

_NONE = "none"
_EXIT_CODES = {"valid": DONE, "anomalies": FAILED, "invalid": UNJUDGED}
_SEED_BITS = 31
# Two tolerate no failure, as one does, and fail twice as often: every fault would only stop all of it.
_TWO = 2


class Workload(StrEnum):
    """What clients do."""

    LOG = "log"
    REGISTER = "register"


class AcksName(StrEnum):
    """At which level records are acknowledged."""

    ALL = "all"
    ONE = "1"
    NONE = "0"


# Operations per second where none are asked for; those of a register are as many as a few clients get answered.
_RATES = {Workload.LOG: 1_200.0, Workload.REGISTER: 200.0}


@click.command("chaos")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder of the run: new, or empty.")
@click.option(
    "--brokers",
    type=BoundedInt(1, NODES_MAX),
    default=3,
    metavar="N",
    help="Make a cluster of so many brokers for the run.",
)
@click.option(
    "--bootstrap", metavar="HOST:PORT,...", help="Use a cluster that is there: any Kafka. Nothing is done to it."
)
@click.option("--workload", type=EnumChoice(Workload), default=Workload.LOG.value, help="What clients do.")
@click.option("--acks", type=EnumChoice(AcksName), default=AcksName.ALL.value, help="How records are acknowledged.")
@click.option(
    "--nemesis",
    metavar="NAME,...",
    help="Faults: kill, pause, partition, disk, transfer, hang-append, vanish-directory, few-descriptors, or none."
    " [default: kill,pause,partition, and transfer for logs; none with --bootstrap]",
)
@click.option("--minutes", type=BoundedFloat(0.2), default=5.0, metavar="N", help="How long.")
@click.option(
    "--rate", type=BoundedFloat(1.0), metavar="N", help="Operations per second. [default: log 1200, register 200]"
)
@click.option("--seed", type=BoundedInt(0), metavar="N", help="Draws the faults. [default: a new one]")
@click.option(
    "--schedule",
    type=PATH,
    metavar="FILE",
    help="Repeat the faults of another run's schedule.json; --minutes is its own.",
)
def chaos(
    out: Path,
    brokers: int,
    bootstrap: str | None,
    workload: Workload,
    acks: AcksName,
    nemesis: str | None,
    minutes: float,
    rate: float | None,
    seed: int | None,
    schedule: Path | None,
) -> int:
    """Run clients while faults happen, and judge what they saw: exit code 0 valid, 1 anomalies, 2 not to be judged.

    Ctrl-C ends the load early, and once more gives up the final reads; such a run is never valid.

    The cluster lives in a network of its own, which needs root, iproute2 and nftables. DIR gets history.jsonl,
    schedule.json, verdict.txt, summary.json, report.html and the brokers' logs.
    """
    _check_finite(minutes=minutes, rate=rate)
    names = _nemeses(nemesis, bootstrap, brokers, workload)
    try:
        from raftka.chaos.errors import ChaosError
        from raftka.chaos.run import carry_out
        from raftka.chaos.run_facts import RunRequest
        from raftka.chaos.run_folder import remove_cluster
        from raftka.chaos.schedule import Schedule, draw_schedule
        from raftka.kafka.errors import KafkaClientError
    except ImportError as error:
        print(f"raftka: {error}; `raftka chaos` needs more: pip install 'raftka[chaos]'", file=sys.stderr)
        return UNJUDGED
    try:
        if schedule is not None:
            drawn = Schedule.load(schedule)
            names = sorted({fault.nemesis for fault in drawn.faults})
        else:
            chosen = secrets.randbits(_SEED_BITS) if seed is None else seed
            drawn = draw_schedule(chosen, names, minutes, acks.value, has_partitions=workload is Workload.LOG)
        request = RunRequest(
            out=out.absolute(),
            brokers=brokers,
            bootstrap=bootstrap,
            workload=workload.value,
            acks=acks.value,
            nemeses=names,
            schedule=drawn,
            rate=_RATES[workload] if rate is None else rate,
            command=" ".join(["raftka", *sys.argv[1:]]),
        )
        judgement = carry_out(request)
    except (ChaosError, KafkaClientError) as error:
        print(f"raftka: {error}", file=sys.stderr)
        return UNJUDGED
    print(*judgement.lines, sep="\n")
    print(f"report: {request.out / 'report.html'}")
    if judgement.outcome == "valid":
        remove_cluster(request.out)
    return _EXIT_CODES[judgement.outcome]


def _check_finite(**options: float | None) -> None:
    """Refuse what a parser of numbers takes, and no clock reaches."""
    for name, value in options.items():
        if value is not None and not math.isfinite(value):
            raise click.BadParameter(f"--{name} {value}: a number with an end is needed")


def _nemeses(text: str | None, bootstrap: str | None, brokers: int, workload: Workload) -> list[str]:
    if brokers == _TWO:
        raise click.BadParameter("--brokers 2: without one of them there is no majority; 1, or 3 and more")
    if text is None:
        default = "kill,pause" if brokers == 1 else "kill,pause,partition"
        if brokers > 1 and workload is Workload.LOG:
            default += ",transfer"
        text = default if bootstrap is None else _NONE
    names = sorted({word.strip() for word in text.split(",")})
    if names == [_NONE]:
        return []
    known = ("kill", "pause", "partition", "disk", "transfer", "hang-append", "vanish-directory", "few-descriptors")
    for name in names:
        if name not in known:
            raise click.BadParameter(f"--nemesis {name}: there are {', '.join(known)}, or none alone")
        if brokers == 1 and name in ("partition", "transfer"):
            raise click.BadParameter(f"--nemesis {name}: one broker has no other one; raise --brokers")
        if workload is Workload.REGISTER and name == "transfer":
            raise click.BadParameter("--nemesis transfer: registers have no partition whose leader could hand over")
    if bootstrap is not None:
        raise click.BadParameter("--nemesis: nothing is done to a cluster that is given by --bootstrap; leave it out")
    return names
