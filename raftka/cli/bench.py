"""`raftka bench`: how fast a cluster takes and gives records, and how long each one takes."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import click
from click.exceptions import Exit

from raftka.chaos.latencies import LatencyHistogram
from raftka.cli.bench_load import RECORD_BYTES_MIN, Load, LoadRequest, Tally
from raftka.cli.completion import complete_topics
from raftka.cli.exit_codes import FAILED, INTERRUPTED
from raftka.cli.interrupts import sigterm_as_ctrl_c
from raftka.cli.lazy_group import Command
from raftka.cli.options import Format, brokers_option, format_option
from raftka.cli.output import print_json, print_table
from raftka.cli.param_types import BoundedFloat, BoundedInt, EnumChoice
from raftka.cli.produce import Acks, Compression
from raftka.cli.progress import QuorumWatch
from raftka.cli.progress_bar import ProgressBar
from raftka.counted import counted
from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.errors import KafkaClientError, NoQuorumError, UnansweredError

_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
_BAR_COLUMNS = 40
_POLL_SECONDS = 0.1
_LEADER_SECONDS = 30.0
# So long nothing may come back before it is asked whether anything can.
_IDLE_SECONDS = 2.0
_PARTITIONS = 6
# A record in seventeen minutes: with fewer a bench is over before the second one.
_RATE_MIN = 0.001
# How names begin that brokers keep for themselves.
_INTERNAL_PREFIX = "__"


@click.command("bench", cls=Command)
@click.option(
    *("--topic", "-t"),
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Existing topic to use. [default: a new one, deleted afterwards]",
)
@click.option(
    "--partitions", "-p", type=BoundedInt(1, 10_000), metavar="N", help="Partitions of the new topic. [default: 6]"
)
@click.option(
    "--replicas",
    "-r",
    type=BoundedInt(1, 31),
    metavar="N",
    help="Replicas of the new topic. [default: the brokers' default]",
)
@click.option("--producers", type=BoundedInt(1, 64), default=1, metavar="N", help="Number of producer threads.")
@click.option("--consumers", type=BoundedInt(0, 64), default=1, metavar="N", help="Number of consumer threads.")
@click.option("--size", type=BoundedInt(RECORD_BYTES_MIN, 10**8), default=1024, metavar="N", help="Bytes per record.")
@click.option(
    "--rate", type=BoundedFloat(0, 1e9), default=0.0, metavar="N", help="Total records per second; 0: no limit."
)
@click.option(
    "--seconds", "-s", type=BoundedFloat(0.1, 86_400), default=10.0, metavar="N", help="Seconds that are measured."
)
@click.option("--warmup", type=BoundedFloat(0, 3_600), default=2.0, metavar="N", help="Seconds of warm-up before that.")
@click.option("--acks", type=EnumChoice(Acks), default=Acks.ALL.value, help="As of `raftka produce`.")
@click.option(
    "--compression", "-z", type=EnumChoice(Compression), default=Compression.NONE.value, help="Compression codec."
)
@click.option(
    "--linger-ms",
    type=BoundedFloat(0, 60_000),
    default=5.0,
    metavar="N",
    help="Milliseconds that a record waits for its batch.",
)
@click.option(
    "--batch-bytes",
    type=BoundedInt(1, 2**31 - 1),
    default=1_000_000,
    metavar="N",
    help="Most bytes of a batch.",
)
@brokers_option
@format_option
def bench(
    topic: str | None,
    partitions: int | None,
    replicas: int | None,
    producers: int,
    consumers: int,
    size: int,
    rate: float,
    seconds: float,
    warmup: float,
    acks: Acks,
    compression: Compression,
    linger_ms: float,
    batch_bytes: int,
    brokers: str,
    output: Format,
) -> None:
    """Write and read records for some seconds; print records/s, MB/s and latencies to acknowledgement and consumer.

    Ctrl-C prints the results so far, and exits with 130. If you publish numbers, say whether clients and brokers
    shared a machine.
    """
    _check_rate(rate)
    _check_topic(topic, partitions, replicas)
    # Imported here, for the sake of `--help`.
    import secrets

    name = topic or f"raftka-bench-{secrets.token_hex(4)}"
    with sigterm_as_ctrl_c(), _topic(brokers, name, partitions or _PARTITIONS, replicas, is_new=topic is None):
        found = _wait_for_leaders(brokers, name)
        ends = kafka_offsets.end_offsets(brokers, [(name, number) for number in found])
        request = LoadRequest(
            brokers=brokers,
            topic=name,
            ends={number: offset for (_, number), offset in ends.items()} if consumers else {},
            producers=producers,
            consumers=consumers,
            size=size,
            rate=rate,
            warmup=warmup,
            seconds=seconds,
            producer_options={
                "acks": acks.value,
                "compression_type": compression.value,
                "linger_ms": linger_ms,
                "batch_size": batch_bytes,
            },
        )
        run = _run(request)
        # Before the topic is deleted: a cluster that refuses that must not keep the results.
        _tell(run, len(found), output)
        if isinstance(run.ended_by, NoQuorumError):
            raise run.ended_by
    if run.ended_by is not None:
        raise Exit(INTERRUPTED)
    if run.produced.failures or run.consumed.failures:
        raise Exit(FAILED)


class _Run(NamedTuple):
    """What a run has measured, in how many seconds; `ended_by`: Ctrl-C or a lost quorum, before its end."""

    request: LoadRequest
    produced: Tally
    consumed: Tally
    seconds: float
    ended_by: KeyboardInterrupt | NoQuorumError | None


def _tell(run: _Run, partitions: int, output: Format) -> None:
    if run.ended_by is not None:
        why = "too few brokers answer" if isinstance(run.ended_by, NoQuorumError) else "interrupted"
        print(f"raftka: {why}: {run.seconds:.1f} of {run.request.seconds:g} s were measured", file=sys.stderr)
        if not run.seconds:
            return
    report = _report(run, partitions)
    if output is Format.JSON:
        print_json(report)
    else:
        _print(report, run.produced, run.consumed)


def _check_rate(rate: float) -> None:
    if 0 < rate < _RATE_MIN:
        raise click.BadParameter(f"--rate {rate:g}: must be 0 or at least {_RATE_MIN:g}")


def _check_topic(name: str | None, partitions: int | None, replicas: int | None) -> None:
    if name is None:
        return
    if partitions is not None or replicas is not None:
        raise click.BadParameter("--partitions and --replicas need a new topic; --topic names an existing one")
    if name.startswith(_INTERNAL_PREFIX):
        raise click.BadParameter(f"--topic {name}: is an internal topic; brokers would refuse or misread the records")


@contextmanager
def _topic(brokers: str, name: str, partitions: int, replicas: int | None, *, is_new: bool) -> Iterator[None]:
    """Have a topic inside: one that is there, or a new one that is deleted however the bench ends.

    Raises:
        KafkaClientError: It is not there, or cannot be created.
    """
    if not is_new:
        kafka_client.read_cluster(brokers).topic(name)
        yield
        return
    try:
        kafka_client.create_topic(brokers, name, partitions, replicas, seconds=kafka_client.CREATE_SECONDS)
    except (KeyboardInterrupt, UnansweredError):
        # The request may have been on its way.
        with suppress(KafkaClientError):
            kafka_client.delete_topic(brokers, name)
        raise
    try:
        yield
    except NoQuorumError:
        words = f"topic {name} is still there; delete it when the brokers are back: raftka topic delete {name}"
        print(f"raftka: {words}", file=sys.stderr)
        raise
    except BaseException:
        kafka_client.delete_topic(brokers, name)
        raise
    kafka_client.delete_topic(brokers, name)


def _wait_for_leaders(brokers: str, topic: str) -> list[int]:
    """Return the partitions of a topic, once each has a leader: a new one needs a moment.

    Raises:
        KafkaClientError: A partition has none for long.
    """
    deadline = time.monotonic() + _LEADER_SECONDS
    while True:
        topics = kafka_client.read_cluster(brokers).topics
        found = topics.get(topic, [])
        if found and all(each.leader >= 0 for each in found):
            return [each.partition for each in found]
        if time.monotonic() >= deadline:
            raise KafkaClientError(f"topic {topic} has partitions without a leader (see `raftka cluster health`)")
        time.sleep(_POLL_SECONDS)


def _run(request: LoadRequest) -> _Run:
    load, quorum = Load(request), QuorumWatch(request.brokers)
    ended_by: KeyboardInterrupt | NoQuorumError | None = None
    load.start()
    with ProgressBar("s", round(request.warmup + request.seconds)) as bar:
        try:
            while not load.is_over:
                bar.show(int(load.seconds_passed))
                time.sleep(_POLL_SECONDS)
                if load.seconds_idle >= _IDLE_SECONDS:
                    quorum.look()
        except (KeyboardInterrupt, NoQuorumError) as error:
            ended_by = error
        measured = load.seconds_measured
        if ended_by is None:
            load.stop()
        else:
            load.abandon()
        produced, consumed = load.join()
    return _Run(request, produced, consumed, measured if ended_by else request.seconds, ended_by)


def _report(run: _Run, partitions: int) -> dict[str, Any]:
    request = run.request
    report: dict[str, Any] = {
        "topic": request.topic,
        "partitions": partitions,
        "producers": request.producers,
        "consumers": request.consumers,
        "record_bytes": request.size,
        "rate": request.rate,
        "warmup_seconds": request.warmup,
        "seconds": round(run.seconds, 3),
        "complete": run.ended_by is None,
        **request.producer_options,
        "produced": _side(run, run.produced),
    }
    if request.ends:
        report["consumed"] = _side(run, run.consumed)
    return report


def _side(run: _Run, tally: Tally) -> dict[str, Any]:
    latencies = tally.latencies
    found = {name: round(latencies.percentile(percent), 3) for name, percent in _PERCENTILES.items()}
    found["max"] = round(latencies.largest / 1e6, 3)
    return {
        "records": latencies.count,
        "records_per_second": round(latencies.count / run.seconds, 1),
        "mb_per_second": round(latencies.count * run.request.size / run.seconds / 1e6, 3),
        "latency_ms": found if latencies.count else {},
        "histogram_ms": [
            {"from": round(low, 6), "below": round(high, 6), "records": count}
            for low, high, count in latencies.doublings()
        ],
        "failures": tally.failures,
    }


def _print(report: dict[str, Any], produced: Tally, consumed: Tally) -> None:
    print(
        f"{counted(report['partitions'], 'partition')}, {report['record_bytes']} B records, acks={report['acks']},"
        f" compression={report['compression_type']}; {report['seconds']:g} s after {report['warmup_seconds']:g} s of"
        f" warm-up; latencies in ms\n"
    )
    sides = [side for side in ("produced", "consumed") if side in report]
    print_table(
        ["", "RECORDS/S", "MB/S", *(name.upper() for name in _PERCENTILES), "MAX"],
        [
            [
                side,
                round(report[side]["records_per_second"]),
                round(report[side]["mb_per_second"], 1),
                *(round(each, 2) for each in report[side]["latency_ms"].values()),
            ]
            for side in sides
            if report[side]["latency_ms"]
        ],
    )
    for side, words, tally in (
        ("produced", "to the acknowledgement", produced),
        ("consumed", "to the consumer", consumed),
    ):
        if side in sides and tally.latencies.count:
            print(f"\n{words}, ms")
            for line in histogram_lines(tally.latencies):
                print(line)
        for reason, count in tally.failures.items():
            print(f"\n{side}: {count} failed: {reason}")


def histogram_lines(latencies: LatencyHistogram) -> list[str]:
    """Return a histogram as text: a row for each doubling, its share as a bar and in percent."""
    rows = latencies.doublings()
    most = max((count for _, _, count in rows), default=0)
    return [
        f"{low:10.3f} - {high:10.3f}  {'#' * round(_BAR_COLUMNS * count / most):<{_BAR_COLUMNS}}"
        f" {count / latencies.count:7.2%}"
        for low, high, count in rows
    ]
