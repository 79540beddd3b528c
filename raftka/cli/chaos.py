"""`raftka chaos`: real processes under real faults, and the verdict on what clients saw."""

import math
import secrets
import sys
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import click

from raftka.cli.exit_codes import DONE, FAILED, UNJUDGED
from raftka.cli.lazy_group import Command
from raftka.cli.param_types import PATH, BoundedFloat, BoundedInt, EnumChoice
from raftka.dev.supervisor import NODES_MAX
from raftka.kafka.client import check_service

_NONE = "none"
_EXIT_CODES = {"valid": DONE, "anomalies": FAILED, "invalid": UNJUDGED}
_SEED_BITS = 31
# Two tolerate no failure, as one does, and fail twice as often: every fault would only stop all of it.
_TWO = 2


class Workload(StrEnum):
    """Operations of the clients."""

    LOG = "log"
    REGISTER = "register"
    TXN = "txn"
    COMPACTED = "compacted"


class AcksName(StrEnum):
    """At which level records are acknowledged."""

    ALL = "all"
    ONE = "1"
    NONE = "0"


_KNOWN = (
    "kill",
    "pause",
    "partition",
    "disk",
    "transfer",
    "hang-append",
    "vanish-directory",
    "few-descriptors",
    "membership",
)
# Topics have three replicas: with one broker more, each of them can be emptied.
_LIVING_MIN = 4
# Operations per second where none are asked for; those of a register are as many as a few clients get answered, and so
# are transactions.
_RATES = {Workload.LOG: 1_200.0, Workload.REGISTER: 200.0, Workload.TXN: 60.0, Workload.COMPACTED: 400.0}


@click.command("chaos", cls=Command)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Directory of the run, new or empty.")
@click.option(
    "--brokers",
    type=BoundedInt(1, NODES_MAX),
    default=3,
    metavar="N",
    help="Number of brokers of the cluster that is started for the run.",
)
@click.option("--bootstrap", metavar="HOST:PORT,...", help="Use an existing cluster of any Kafka, without faults.")
@click.option("--workload", type=EnumChoice(Workload), default=Workload.LOG.value, help="Operations of the clients.")
@click.option(
    "--acks", type=EnumChoice(AcksName), default=AcksName.ALL.value, help="Acknowledgement level of producers."
)
@click.option(
    "--nemesis",
    metavar="NAME,...",
    help="Faults: kill, pause, partition, disk, transfer, hang-append, vanish-directory, few-descriptors, membership,"
    " or none. [default: kill,pause,partition, and transfer except for registers; none with --bootstrap]",
)
@click.option("--minutes", type=BoundedFloat(0.2), default=5.0, metavar="N", help="Minutes of load.")
@click.option(
    "--rate",
    type=BoundedFloat(1.0),
    metavar="N",
    help="Operations per second, or transactions. [default: log 1200, register 200, txn 60, compacted 400]",
)
@click.option("--seed", type=BoundedInt(0), metavar="N", help="Seed of the fault schedule. [default: random]")
@click.option(
    "--schedule",
    type=PATH,
    metavar="FILE",
    help="Repeat the faults of a schedule.json of another run, which also sets the minutes.",
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
    """Run clients during faults, and check their histories. Exit code: 0 valid, 1 anomalies, 2 cannot be judged.

    Ctrl-C ends the load early; a second one skips the final reads. Such a run is never valid.

    The cluster runs in its own network namespace, which needs root, iproute2 and nftables. DIR receives history.jsonl,
    schedule.json, verdict.txt, summary.json, report.html and the brokers' logs.
    """
    _check_finite(minutes=minutes, rate=rate)
    if workload is Workload.TXN and acks is not AcksName.ALL:
        raise click.BadParameter(f"--acks {acks.value}: transactions need --acks all")
    if workload is Workload.COMPACTED:
        if acks is not AcksName.ALL:
            raise click.BadParameter(f"--acks {acks.value}: the compacted workload needs --acks all")
        if bootstrap is not None:
            raise click.BadParameter(
                "--workload compacted: cannot be combined with --bootstrap; the run's own brokers tell of passes"
            )
    cluster = _Cluster(bootstrap, brokers, workload, acks)
    names = _nemeses(nemesis, cluster)
    if bootstrap is not None:
        check_service(bootstrap)
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
            _check_nemeses(names, cluster, schedule)
        else:
            chosen = secrets.randbits(_SEED_BITS) if seed is None else seed
            drawn = draw_schedule(chosen, names, minutes, acks.value, has_partitions=workload is not Workload.REGISTER)
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
            raise click.BadParameter(f"--{name} {value}: must be a finite number")


class _Cluster(NamedTuple):
    """What decides which faults there can be; each as its option says."""

    bootstrap: str | None
    brokers: int
    workload: Workload
    acks: AcksName


def _nemeses(text: str | None, cluster: _Cluster) -> list[str]:
    if cluster.brokers == _TWO:
        raise click.BadParameter("--brokers 2: two brokers tolerate no failure; use 1, or 3 and more")
    if text is None:
        default = "kill,pause" if cluster.brokers == 1 else "kill,pause,partition"
        if cluster.brokers > 1 and cluster.workload is not Workload.REGISTER:
            default += ",transfer"
        text = default if cluster.bootstrap is None else _NONE
    names = sorted({word.strip() for word in text.split(",")})
    if names == [_NONE]:
        return []
    for name in names:
        if name not in _KNOWN:
            raise click.BadParameter(f"--nemesis {name}: must be among {', '.join(_KNOWN)}, or none alone")
    _check_nemeses(names, cluster, None)
    return names


def _check_nemeses(names: list[str], cluster: _Cluster, schedule: Path | None) -> None:
    """Refuse faults that this cluster cannot have; they were asked for by name, or are in a schedule."""

    def refusal(name: str, why: str) -> click.BadParameter:
        told = f"--nemesis {name}:" if schedule is None else f"--schedule {schedule}: nemesis {name}"
        return click.BadParameter(f"{told} {why}")

    for name in names:
        if cluster.brokers == 1 and name in ("partition", "transfer"):
            raise refusal(name, "needs more than one broker; raise --brokers")
        if cluster.workload is Workload.REGISTER and name in ("transfer", "membership"):
            raise refusal(name, "needs a workload on partitions: log, txn or compacted")
    if "membership" in names:
        if cluster.brokers < _LIVING_MIN:
            raise refusal("membership", f"needs {_LIVING_MIN} brokers or more; raise --brokers")
        if other := sorted({"disk", "vanish-directory"} & set(names)):
            raise refusal(other[0], "cannot be combined with membership, which takes disks away itself")
        if cluster.acks is not AcksName.ALL:
            raise refusal("membership", "needs --acks all; a lost disk takes what it had alone")
    if names and cluster.bootstrap is not None:
        option = "--nemesis" if schedule is None else f"--schedule {schedule}"
        raise click.BadParameter(f"{option}: a cluster given by --bootstrap gets no faults; leave it out")
