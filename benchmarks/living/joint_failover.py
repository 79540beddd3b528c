"""How long a partition is away when its leader is killed while old and new replicas decide together.

Four brokers, one partition with three replicas, one of which a move replaces. The leader tells in its log that it goes
on to two sets of voters; it is killed in that moment. Such kills and kills without any move take turns. A kill counts
if the next leader had both sets from its log: one that goes on to them itself did not know them when it was elected.
"""

import re
import signal
import time
from pathlib import Path
from typing import Any

from benchmarks.cluster import TOPIC, BenchCluster, BenchmarkError, LeaderPoll, eventually, running_cluster
from benchmarks.compare.verdict import Target, row
from benchmarks.living.verbs import move
from benchmarks.load import CountingProducer, client_facts
from benchmarks.plan import Plan
from benchmarks.report import summarize
from raftka.dev.process_identity import ProcessIdentity
from raftka.kafka import client as kafka_client

_NODES = 4
_RATE = 1000.0
_STEADY_SECONDS = 0.5
_REPEATS, _QUICK_REPEATS = 20, 2
# So many times as often it is tried.
_TRIES = 3
_SECONDS = 60.0
_POLL_SECONDS = 0.001
_NAMES = ("alone", "joint")
# What the leader writes before it appends a configuration of two sets (`raft.reconfiguration_stm`).
_JOINT = re.compile(rb"goes on to voters \[\[[\d, ]+\], \[[\d, ]+\]\]")


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return milliseconds from each kill to the next leader and to the next acknowledged record.

    Raises:
        BenchmarkError: Nobody leads in time, or moves do not come to their joint configurations.
    """
    repeats = _QUICK_REPEATS if plan.is_quick else _REPEATS
    pairs: list[dict[str, dict[str, Any]]] = []
    tries = 0
    with running_cluster(data_dir, nodes=_NODES) as cluster, cluster.topic(1):
        with CountingProducer(cluster.bootstrap, "all", rate=_RATE) as producer:
            while len(pairs) < repeats:
                if tries == _TRIES * repeats:
                    raise BenchmarkError(f"of {tries} kills, {len(pairs)} hit a joint configuration that others had")
                tries += 1
                pair = {name: _kill(cluster, producer, name == "joint") for name in _NAMES}
                if pair["joint"]["is_joint"]:
                    pairs.append(pair)
        errors = len(producer.errors)
    found = {name: [pair[name] for pair in pairs] for name in _NAMES}
    rows = []
    for key, what in (("acknowledged_ms", "to the first new record acknowledged"), ("elected_ms", "to a new leader")):
        ours, theirs = ([each[key] for each in found[name]] for name in ("joint", "alone"))
        # A median of each, not of pairs: two kills have nothing in common but the cluster.
        medians = [summarize(values)["median"] for values in (ours, theirs)]
        targets = [Target("<=", 1.2)] if key == "acknowledged_ms" else []
        words = f"failover amid a joint configuration: {what}, median of {repeats} kills"
        rows.append(row(words, "ms", medians[:1], medians[1:], *targets, peer="without a move"))
    return {
        "what": f"SIGKILL of the partition's leader under {_RATE:,.0f} records/s of 1 KiB at acks=all",
        "client": client_facts(),
        "rows": rows,
        "records_with_errors": errors,
        "kills_before_others_had_the_joint_configuration": tries - len(pairs),
        **{name: {"summary": summarize([each["acknowledged_ms"] for each in found[name]], 0)} for name in found},
        "kills": found,
    }


def _kill(cluster: BenchCluster, producer: CountingProducer, is_joint: bool) -> dict[str, Any]:
    acked = producer.acked
    eventually("records are acknowledged", lambda: producer.acked > acked + int(_RATE * _STEADY_SECONDS) or None)
    (now,) = kafka_client.read_cluster(cluster.bootstrap).topic(TOPIC)
    victim, target = now.leader, list(now.replicas)
    process = next(each.process for each in cluster.brokers if each.node_id == victim)
    if process is None:
        raise BenchmarkError("the leader has no process")
    polls = {each.node_id: LeaderPoll(each.addresses.admin) for each in cluster.brokers if each.node_id != victim}
    try:
        for poll in polls.values():
            poll.leads(TOPIC, 0)
        if is_joint:
            target = _move_until_joint(cluster, victim, target)
        ends = {node: cluster.folder.log_path(node).stat().st_size for node in polls}
        found = _strike(producer, process, polls)
    finally:
        for poll in polls.values():
            poll.close()
        cluster.restart(victim)
    eventually("every replica is in sync", lambda: _is_settled(cluster, target), _SECONDS)
    again = any(_JOINT.search(_said(cluster, node, end)) for node, end in ends.items())
    return found | {"victim": victim, "is_joint": is_joint and not again}


def _said(cluster: BenchCluster, node: int, since: int) -> bytes:
    """Return what is in a broker's log behind a byte."""
    with cluster.folder.log_path(node).open("rb") as log:
        log.seek(since)
        return log.read()


def _strike(producer: CountingProducer, process: ProcessIdentity, polls: dict[int, LeaderPoll]) -> dict[str, Any]:
    process.send_signal(signal.SIGKILL)
    # Not before: what was sent before the signal may have been answered by the victim.
    struck_at = time.perf_counter()
    producer.watch_from(struck_at)
    leader = eventually(
        "there is a new leader", lambda: next((node for node, poll in polls.items() if poll.leads(TOPIC, 0)), None)
    )
    elected_at = time.perf_counter()
    eventually("a record is acknowledged", lambda: producer.first_answer, _SECONDS)
    answered_at = producer.first_answer or time.perf_counter()
    return {
        "elected_ms": round(1000 * (elected_at - struck_at)),
        "acknowledged_ms": round(1000 * (answered_at - struck_at)),
        "elected": leader,
    }


def _move_until_joint(cluster: BenchCluster, leader: int, replicas: list[int]) -> list[int]:
    """Replace one that does not lead by the broker that holds nothing of it; return where the partition goes.

    Returns when the leader's log tells that it goes on to a configuration of two sets of voters.

    Raises:
        BenchmarkError: It does not.
    """
    (other,) = {each.node_id for each in cluster.brokers} - set(replicas)
    leaves = next(node for node in replicas if node != leader)
    target = [other if node == leaves else node for node in replicas]
    with cluster.folder.log_path(leader).open("rb") as log:
        log.seek(0, 2)
        move(cluster, target)
        written = b""
        deadline = time.perf_counter() + _SECONDS
        while not _JOINT.search(written):
            if time.perf_counter() > deadline:
                raise BenchmarkError("the move did not come to a joint configuration")
            time.sleep(_POLL_SECONDS)
            written += log.read()
    return target


def _is_settled(cluster: BenchCluster, target: list[int]) -> bool | None:
    """Whether the partition is where it shall be, and every replica is in sync."""
    (now,) = kafka_client.read_cluster(cluster.bootstrap).topic(TOPIC)
    return (sorted(now.replicas) == sorted(target) == sorted(now.in_sync)) or None
