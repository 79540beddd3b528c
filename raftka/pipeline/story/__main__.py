"""The story: three brokers, a load, lost leaders, two pipelines, and the checks of their results.

Exit code 0 if the archive is proven, the dead letters are complete, the picture shows the loss and the audit is clean.
"""

import argparse
import io
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from raftka.chaos.errors import ChaosError
from raftka.dev.errors import DevError
from raftka.dev.supervisor import DevCluster, StartRequest, start_cluster
from raftka.error_text import reason_of
from raftka.kafka import client as kafka_client
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.errors import KafkaClientError
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.spark_session import require_spark
from raftka.pipeline.story.orders import TOPIC, TOPICS, Load, make_topic
from raftka.pipeline.story.outage import Outage
from raftka.pipeline.story.output import prepare, shown
from raftka.pipeline.story.pipelines import DEAD_LETTERS, Pipeline, Pipelines
from raftka.pipeline.story.waiting import StoryError, eventually, pass_time
from raftka.pipeline.telemetry.settings import TELEMETRY_TOPIC

_STEADY_SECONDS = 12.0
_DEAD_SECONDS = 6.0
_OPTIONS = {
    "telemetry.enable": "true",
    # Telemetry tells of whole seconds: what lasts for two of them is seen, wherever they begin. The third one is for
    # the leader's last heartbeat, and for brokers that read late under load.
    "raft.election.timeout.ms": "3000",
}
_ASK_SECONDS = 3.0
_PARTITION = 0
_HISTORY, _PICTURE = "history.jsonl", "telemetry.png"


class _InterruptedStoryError(KeyboardInterrupt):
    """Ctrl-C or SIGTERM; a KeyboardInterrupt, because py4j takes every Exception for its own."""


class Story:
    """One run, from its cluster to its proofs; says how long it has lasted with each line."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._began = time.monotonic()
        self._cluster: DevCluster | None = None

    def tell(self) -> None:
        """Run all of it; whatever happens, nothing is left running.

        Raises:
            StoryError: What is to be proven is not so.
        """
        try:
            self._say("three brokers start, which publish telemetry")
            self._cluster = start_cluster(
                StartRequest(nodes=3, port=0, admin_port=0, rpc_port=0, ephemeral=True, options=_OPTIONS)
            )
            self._await_brokers()
            make_topic(self._brokers)
            eventually("the brokers make the topic of their telemetry", self._has_telemetry_topic)
            self._say(f"Spark starts; its output is in {shown(self._out / 'spark.log')}")
            with Pipelines(self._brokers, self._out) as pipelines:
                pipelines.start()
                eventually("both pipelines run", pipelines.running)
                self._say("the pipelines archive and telemetry run")
                self._run(pipelines)
        finally:
            # A second Ctrl-C must not leave anything behind.
            _handle_signals(signal.SIG_IGN)
            if self._cluster is not None:
                self._cluster.stop()
        self._say("every process is stopped")

    @property
    def _brokers(self) -> str:
        assert self._cluster is not None
        return self._cluster.state.bootstrap

    def _run(self, pipelines: Pipelines) -> None:
        history = self._out / _HISTORY
        with Load(self._brokers, history) as load:
            load.start()
            self._say(
                "two producers write orders at acks=all, two consumers read them; the run records all of it in"
                f" {shown(history)}"
            )
            pass_time(_STEADY_SECONDS, pipelines.check)
            self._lose_the_leader(load, pipelines, is_frozen_first=False)
            pass_time(_STEADY_SECONDS, pipelines.check)
            outage = self._lose_the_leader(load, pipelines, is_frozen_first=True)
            pass_time(_STEADY_SECONDS, pipelines.check)
            load.stop()
            ended_at = time.time()
            orders = load.read_finally()
        self._say(f"the load ends: {orders:,} orders are in the log, every one acknowledged; all are read once more")
        ends = kafka_offsets.end_offsets(self._brokers, TOPICS.all)
        eventually("the archive has all orders", lambda: pipelines.has_archived(ends))
        self._stop(pipelines.archive)
        # The last windows of telemetry end some seconds after the load: the proofs that need none of them go first.
        self._prove(pipelines, orders)
        eventually("telemetry has told of all the time", lambda: pipelines.has_told(ended_at))
        self._stop(pipelines.telemetry)
        self._draw(pipelines, outage, (load.history.began_wall_ns / 1e9, ended_at))

    def _stop(self, pipeline: Pipeline) -> None:
        pipeline.ask_to_stop()
        status = pipeline.ended()
        self._say(f"pipeline {status.name} is stopped: {status.batches:,} batches, {status.rows:,} records")

    def _lose_the_leader(self, load: Load, pipelines: Pipelines, *, is_frozen_first: bool) -> Outage:
        """Kill the leader, and bring it back. Frozen first it is like a machine that dies: no connection is closed."""
        assert self._cluster is not None
        leader = eventually("the partition has a leader", self._leader)
        lost_at = time.time()
        if is_frozen_first:
            load.history.fault("freeze", node=leader)
            process = self._cluster.state.broker(leader).process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
        else:
            self._kill(load, leader)
        after = eventually("another broker leads", lambda: self._leader(other_than=leader))
        led_again_at = time.time()
        how = "stands still, as if its machine had died" if is_frozen_first else "is killed"
        self._say(
            f"broker {leader}, which led {TOPIC}-{_PARTITION}, {how}; broker {after} leads"
            f" {led_again_at - lost_at:.1f} s later"
        )
        if is_frozen_first:
            self._kill(load, leader)
        pass_time(_DEAD_SECONDS, pipelines.check)
        self._cluster.start_again(leader)
        self._await_brokers()
        load.history.fault("healed", node=leader)
        eventually("all replicas are in sync", self._in_sync)
        self._say(f"broker {leader} is back, and in sync")
        return Outage(_PARTITION, lost_at, led_again_at)

    def _kill(self, load: Load, node: int) -> None:
        assert self._cluster is not None
        load.history.fault("kill", node=node)
        self._cluster.kill(node)

    def _prove(self, pipelines: Pipelines, orders: int) -> None:
        # Not before it is known that PySpark is there.
        from raftka.pipeline.story import proofs

        spark, archive, history = pipelines.spark, pipelines.archive.output, self._out / _HISTORY
        self._say(f"{shown(archive)}: {proofs.verified(spark, self._brokers, archive, orders)}")
        self._say(f"topic {DEAD_LETTERS}: {proofs.letters_counted(spark, self._brokers, DEAD_LETTERS, history)}")
        self._say(f"{shown(history)}: {proofs.audited(spark, history, self._out)}")

    def _draw(self, pipelines: Pipelines, outage: Outage, span: tuple[float, float]) -> None:
        from raftka.pipeline.story import proofs

        tables, picture = pipelines.telemetry.output, self._out / _PICTURE
        self._say(f"{shown(picture)}: {proofs.plotted(pipelines.spark, tables, outage, span, picture)}")

    def _await_brokers(self) -> None:
        assert self._cluster is not None
        if problems := self._cluster.wait_ready():
            raise StoryError("; ".join(problems))

    def _has_telemetry_topic(self) -> bool | None:
        return True if TELEMETRY_TOPIC in kafka_client.read_cluster(self._brokers).topics else None

    def _leader(self, other_than: int = -1) -> int | None:
        """Return who leads, as the others tell: one that stands still does not answer."""
        assert self._cluster is not None
        others = [each.addresses.kafka for each in self._cluster.state.brokers if each.node_id != other_than]
        leader = kafka_client.read_cluster(",".join(others), _ASK_SECONDS).topic(TOPIC)[_PARTITION].leader
        return leader if leader not in (-1, other_than) else None

    def _in_sync(self) -> bool | None:
        partitions = kafka_client.read_cluster(self._brokers).topic(TOPIC)
        return True if all(len(each.in_sync) == TOPICS.replicas for each in partitions) else None

    def _say(self, line: str) -> None:
        print(f"{time.monotonic() - self._began:4.0f} s  {line}")


def _handle_signals(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def _interrupt(number: int, _: FrameType | None) -> None:
    # Once: what is being stopped then takes its time, and a second one must not cut it short.
    _handle_signals(signal.SIG_IGN)
    raise _InterruptedStoryError(f"{signal.Signals(number).name} stopped it")


def _required() -> tuple[type[Exception], ...]:
    """Look for what must be installed; returns what Spark raises.

    Raises:
        PipelineError: Something is missing.
    """
    from raftka.pipeline.telemetry.plot import require_matplotlib

    require_spark()
    require_matplotlib()
    try:
        import numpy  # noqa: F401 - before brokers start
    except ImportError as error:
        raise PipelineError(f"{error}; the audit needs numpy, too: pip install 'raftka[spark,check]'") from None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (Py4JError, PySparkException)


def main() -> int:
    """Run the story; 0 if all results passed their checks."""
    parser = argparse.ArgumentParser(prog="make run-pipeline", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("build/pipeline"), help="folder of the run; it is created again"
    )
    arguments = parser.parse_args()
    _handle_signals(_interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Also into a pipe the story is told as it happens.
        sys.stdout.reconfigure(line_buffering=True)
    ours: tuple[type[BaseException], ...] = (StoryError, PipelineError, DevError, KafkaClientError, ChaosError, OSError)
    try:
        ours += _required()
        Story(prepare(arguments.out)).tell()
    except KeyboardInterrupt as error:
        # One without words comes from PySpark, which has a handler of its own while a session starts.
        return _ended(error if str(error) else _InterruptedStoryError("SIGINT stopped it"))
    except BaseException as error:
        if isinstance(error, ours):
            return _ended(error)
        raise
    return 0


def _ended(error: BaseException) -> int:
    from raftka.pipeline.query_errors import query_error

    is_of_spark = type(error).__module__.startswith(("py4j", "pyspark"))
    why = reason_of(error)
    print(f"\nThe story ends here: {query_error(why) if is_of_spark else why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
