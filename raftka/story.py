"""What `make run` tells: three brokers, one is killed, and what became of what was promised."""

import io
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeVar

from raftka.admin_client import AdminError, get_json
from raftka.dev.errors import DevError
from raftka.dev.supervisor import DevCluster, StartRequest, start_cluster
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError
from raftka.story_clients import Tail, Verdict, Writer, judge, read_all

TOPIC = "story"
_SINGLY = 100
_FLOOD_PAUSE = 0.0002
_STEADY_PAUSE = 0.002
_BEFORE_KILL_SECONDS = 1.5
_AFTER_SECONDS = 1.0
_DEADLINE_SECONDS = 20.0
_POLL_SECONDS = 0.01
_LEVELS = (
    ("0", "nobody is asked: it has been sent"),
    ("1", "the leader has it in its log"),
    ("all", "a majority has it on disk"),
)
_MARKS = ("dirty", "flushed", "commit", "visible")

T = TypeVar("T")


class StoryError(Exception):
    """The story could not go on, or a promise was broken; in words for the reader."""


class _InterruptedStoryError(StoryError):
    """Ctrl-C or SIGTERM."""


@dataclass(slots=True)
class _Story:
    cluster: DevCluster
    tail: Tail
    writers: list[Writer] = field(default_factory=list)

    def writer(self, level: str, name: str) -> Writer:
        made = Writer(self.cluster.state.bootstrap, TOPIC, level, name)
        self.writers.append(made)
        return made


def main() -> int:
    """Tell the story; 0 if every promise was kept."""
    _handle_signals(_interrupt)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Also into a pipe the story is told as it happens.
        sys.stdout.reconfigure(line_buffering=True)
    began = time.monotonic()
    print("Raftka speaks Kafka's protocol, and every partition is a Raft group: copies that elect a leader.\n")
    cluster = None
    try:
        print("1. Three brokers start on this machine, each a process of its own.")
        cluster = start_cluster(StartRequest(nodes=3, port=0, admin_port=0, rpc_port=0, ephemeral=True))
        _tell(cluster, began)
    except (StoryError, DevError, KafkaClientError, AdminError) as error:
        print(f"\nThe story ends here: {error}", file=sys.stderr)
        return 1
    finally:
        # A second Ctrl-C must not leave brokers behind.
        _handle_signals(signal.SIG_IGN)
        if cluster is not None:
            cluster.stop()
    print(f"\nEvery process is stopped and the data is removed. The story took {time.monotonic() - began:.0f} s.")
    print("Your turn: .venv/bin/raftka dev")
    return 0


def _handle_signals(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def _interrupt(number: int, _: FrameType | None) -> None:
    raise _InterruptedStoryError(f"{signal.Signals(number).name} stopped it")


def _tell(cluster: DevCluster, began: float) -> None:
    problems = cluster.wait_ready()
    if problems:
        raise StoryError("; ".join(problems))
    print(f"   Ready after {time.monotonic() - began:.1f} s; Kafka clients find them at")
    print(f"   {cluster.state.bootstrap}")
    story = _Story(cluster, Tail(cluster.state.bootstrap, TOPIC))
    _create_topic(story)
    story.tail.start()
    _write_at_each_level(story)
    _watch_positions(story)
    _kill_the_leader(story)
    verdict = _read_back(story)
    if verdict.broken_promises:
        raise StoryError("PROMISES WERE BROKEN\n  " + "\n  ".join(verdict.broken_promises))


def _create_topic(story: _Story) -> None:
    print("\n2. A topic with one partition and three replicas: each broker has a copy, one of them leads.")
    kafka_client.create_topic(story.cluster.state.bootstrap, TOPIC, 1, 3)
    leader = _eventually("the partition has a leader", lambda: _leader(story.cluster))
    print(f"   Broker {leader['leader']} leads, elected in term {leader['term']}. It alone takes writes.")


def _write_at_each_level(story: _Story) -> None:
    print(f"\n3. {_SINGLY} records at each level, one after the other. A producer chooses whom to wait for:")
    for level, meaning in _LEVELS:
        latencies = story.writer(level, f"single-{level}").write_singly(_SINGLY)
        median, slowest = latencies[len(latencies) // 2], latencies[-1]
        print(f"   acks={level:<4} median {median:6.2f} ms, slowest {slowest:6.2f} ms   {meaning}")


def _watch_positions(story: _Story) -> None:
    print("\n4. Offset of the last record on each broker while a producer writes at acks=1:")
    print(f"             {''.join(f'{word:>10}' for word in ('written', 'on disk', 'committed', 'visible'))}")
    writer = story.writer("1", "flood")
    writer.start(_FLOOD_PAUSE)
    for _ in range(3):
        time.sleep(0.3)
        _print_positions(_partition(story.cluster))
    writer.stop()
    print("   Visible is what a majority has got, committed what a majority has on disk.")
    print("   When the producer has stopped:")
    _print_positions(_eventually("the replicas are equal", lambda: _settled(story.cluster)))


def _print_positions(partition: dict[str, Any]) -> None:
    for row in partition["positions"]:
        offsets = "".join(f"{row[mark]['offset']:>10}" for mark in _MARKS)
        print(f"   broker {row['node_id']}  {offsets}{'  leads' if row['node_id'] == partition['leader'] else ''}")


def _kill_the_leader(story: _Story) -> None:
    cluster = story.cluster
    first, second = story.writer("all", "kill-all"), story.writer("1", "kill-1")
    first.start(_STEADY_PAUSE)
    # Faster than followers copy it: what acks=1 may lose is what only the leader has.
    second.start(_FLOOD_PAUSE)
    time.sleep(_BEFORE_KILL_SECONDS)
    before = _eventually("the partition has a leader", lambda: _leader(cluster))
    print(f"\n5. Two producers write, at acks=all and acks=1. Broker {before['leader']} is killed (SIGKILL).")
    killed_at = time.monotonic()
    cluster.kill(before["leader"])
    after = _eventually("another broker leads", lambda: _leader(cluster, other_than=before["leader"]))
    elected = time.monotonic() - killed_at
    print(f"   After {elected:.2f} s broker {after['leader']} leads, elected in term {after['term']}.")
    _await_answer(first, killed_at)
    _await_answer(second, killed_at)
    time.sleep(_AFTER_SECONDS)
    for writer in (first, second):
        writer.stop()


def _await_answer(writer: Writer, killed_at: float) -> None:
    level = writer.ledger.level
    answered = _eventually(f"a record at acks={level} is acknowledged", lambda: writer.answered_since(killed_at))
    print(f"   acks={level:<4} answered again after {answered - killed_at:.2f} s.")


def _read_back(story: _Story) -> Verdict:
    print("\n6. Everything is read back from the two brokers that are left and compared with every answer.")
    log = read_all(story.cluster.state.bootstrap, TOPIC)
    story.tail.stop()
    verdict = judge([writer.ledger for writer in story.writers], log, story.tail.seen)
    repeated = f"; {verdict.repeated} are repetitions, sent again when the leader died" if verdict.repeated else ""
    print(f"   {verdict.records} records are in the log{repeated}.")
    for level, promise in (
        ("all", "promised to survive"),
        ("1", "promised only while the leader lives"),
        ("0", "promised nothing"),
    ):
        missing = len(verdict.missing.get(level, []))
        print(f"   acks={level:<4} {verdict.acked.get(level, 0):6} acknowledged, {missing:4} missing: {promise}.")
    seen, vanished = len(story.tail.seen), len(verdict.vanished)
    print(f"   Phantoms, records that nobody sent: {len(verdict.phantoms)}.")
    print(f"   A reader followed all along and saw {seen}; gone or changed since: {vanished}.")
    if verdict.missing.get("1"):
        print("   What acks=1 lost was on the killed leader only; it will cut that off when it comes back.")
    else:
        print("   acks=1 lost nothing this time. It may: what only the killed leader has is cut off.")
    return verdict


def _partition(cluster: DevCluster) -> dict[str, Any]:
    """Return what the first broker that answers knows of the partition."""
    reason = "no broker runs"
    for broker in cluster.state.brokers:
        if not broker.is_alive:
            continue
        try:
            status, body = get_json(broker.addresses.admin, f"/v1/partitions/{TOPIC}/0", timeout=5.0)
        except AdminError as error:
            reason = str(error)
            continue
        if status == 200 and isinstance(body, dict):
            return body
        reason = f"broker {broker.node_id} answered with status {status}"
    raise StoryError(f"the partition's state cannot be read: {reason}")


def _leader(cluster: DevCluster, other_than: int = -1) -> dict[str, Any] | None:
    found = _partition(cluster)
    return found if found["leader"] not in (-1, other_than) else None


def _settled(cluster: DevCluster) -> dict[str, Any] | None:
    found = _partition(cluster)
    offsets = {row[mark]["offset"] for row in found["positions"] for mark in _MARKS}
    return found if len(offsets) == 1 and len(found["positions"]) == len(cluster.state.brokers) else None


def _eventually(what: str, probe: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while (found := probe()) is None:
        if time.monotonic() >= deadline:
            raise StoryError(f"not within {_DEADLINE_SECONDS:.0f} s: {what}")
        time.sleep(_POLL_SECONDS)
    return found


if __name__ == "__main__":
    sys.exit(main())
