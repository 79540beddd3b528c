"""Brokers of a dev cluster are killed and frozen until an alert's condition holds; its cure is typed, and it ends.

The condition is read from what the brokers expose, without Prometheus; tests/process/test_real_prometheus.py runs one.
`test_alert_cures_by_load` does the same with disks, bounds and load.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from raftka.monitoring.alerts import ALERTS
from tests.process.alert_cures import NODES, SECONDS, Cures, Operator, of_alerts
from tests.process.broker_processes import eventually

pytestmark = pytest.mark.process

OPTIONS = {"telemetry_enable": "true"}
# One copy on each broker, three copies, and three copies of which three must be in sync.
TOPICS = ("single -p 3 -r 1", "copied -p 3 -r 3", "strict -p 3 -r 3 -c min.insync.replicas=3")
RUNS = r"broker \d runs \(pid \d+\)"


def lost(operator: Operator) -> float:
    pairs = zip(
        operator.values("raftka_cluster_brokers"), operator.values("raftka_cluster_brokers_alive"), strict=False
    )
    return max((brokers - alive for brokers, alive in pairs), default=0)


# What each expression says, of one moment; and what `raftka doctor` says while broker 2 is dead.
AFTER_A_KILL: dict[str, tuple[Callable[[Operator], bool], str]] = {
    "RaftkaBrokerLost": (lambda operator: lost(operator) > 0, r"broker 2 at \S+ does not answer"),
    "RaftkaOfflinePartitions": (
        lambda operator: max(operator.values("raftka_cluster_offline_partitions"), default=0) > 0,
        r"no leader for single-\d: no reads and no writes\n.*2 does not answer\n.*\(they are on 2\)",
    ),
    "RaftkaUnderReplicatedPartitions": (
        lambda operator: sum(operator.values("raftka_under_replicated_partitions")) > 0,
        r"not in sync on broker 2: .*(copied|strict)-\d",
    ),
    "RaftkaPeerDown": (lambda operator: 0 in operator.values("raftka_peer_up"), r"broker 2 at \S+ does not answer"),
}


def high_watermark(operator: Operator, topic: str, partition: int) -> int:
    rows = json.loads(operator.type(f"raftka partition list {topic} -f json"))
    return int(rows[partition]["hw"])


def type_all(cures: Cures, doctor_says: str) -> None:
    """Type what the cures of an alert have of these, in the page's order, while broker 2 is dead."""
    for command, says, code in (
        ("raftka doctor", doctor_says, 1),
        ("raftka dev logs N", r"(?m)^2 \| ", 0),
        ("raftka dev restart N", RUNS, 0),
    ):
        if any(command == left for _, left in cures.left):
            cures.type(command, says, code=code, N=2)


@of_alerts(*AFTER_A_KILL)
def test_the_cure_of_an_alert_on_a_killed_broker_ends_it(operator: Operator, cures: Cures) -> None:
    holds, doctor_says = AFTER_A_KILL[cures.name]
    assert not holds(operator)
    operator.type("raftka dev kill 2")
    eventually(f"{cures.name} holds", lambda: holds(operator), SECONDS)
    type_all(cures, doctor_says)
    eventually(f"{cures.name} has ended", lambda: not holds(operator), SECONDS)


@of_alerts("RaftkaNoController+RaftkaTelemetryFails")
def test_a_cluster_without_a_majority_has_a_controller_and_telemetry_again_once_a_broker_is_started(
    operator: Operator, cures: Cures
) -> None:
    def failed() -> float:
        return sum(operator.values("raftka_telemetry_batches_failed_total", 1))

    before = failed()
    assert operator.values("raftka_cluster_brokers") == [3]
    for node in (2, 3):
        operator.type(f"raftka dev kill {node}")
    eventually("nobody leads raft0", lambda: not operator.values("raftka_cluster_brokers"), SECONDS)
    eventually("telemetry is not written", lambda: failed() > before, SECONDS)
    # The second if broker 1 is too slow at that moment to tell what it lacks.
    cures.type(
        "raftka doctor", "raft0 has no leader|no quorum: brokers 2, 3 of 3 do not answer", "brokers? 2, 3", code=1
    )
    cures.type("raftka dev restart N", RUNS, N=2)
    eventually("raft0 is led", lambda: bool(operator.values("raftka_cluster_brokers")), SECONDS)
    published = sum(operator.values("raftka_telemetry_batches_published_total", 1))
    eventually(
        "telemetry is written again",
        lambda: sum(operator.values("raftka_telemetry_batches_published_total", 1)) > published,
        SECONDS,
    )
    cures.type("raftka dev restart N", RUNS, N=3, of="RaftkaNoController")


@of_alerts("RaftkaUnderMinIsrPartitions")
def test_a_lower_min_insync_replicas_ends_the_alert_and_so_does_the_broker(operator: Operator, cures: Cures) -> None:
    def holds() -> bool:
        return sum(operator.values("raftka_under_min_isr_partitions")) > 0

    operator.type("raftka dev kill 2")
    eventually("acks=all is refused", holds, SECONDS)
    said = cures.type("raftka doctor", r"acks=all is refused by strict-\d", code=1)
    # It names the third command with its topic.
    assert "raftka topic alter-config strict --set min.insync.replicas=" in said
    cures.type("raftka topic alter-config TOPIC --set min.insync.replicas=1", "changed strict", TOPIC="strict")
    eventually("acks=all is taken without broker 2", lambda: not holds(), SECONDS)
    operator.type("raftka topic alter-config strict --set min.insync.replicas=3")
    eventually("acks=all is refused again", holds, SECONDS)
    cures.type("raftka dev restart N", RUNS, N=2)
    eventually("acks=all is taken", lambda: not holds(), SECONDS)


@of_alerts("RaftkaStalledPartitions")
def test_a_partition_whose_followers_are_frozen_goes_on_once_one_is_restarted(operator: Operator, cures: Cures) -> None:
    def holds() -> bool:
        return sum(operator.values("raftka_stalled_partitions")) > 0

    rows = json.loads(operator.type("raftka partition list copied -f json"))
    leader, partition = rows[0]["leader"], rows[0]["partition"]
    followers = [node for node in NODES if node != leader]
    with operator.typing(f"raftka produce copied -p {partition}") as records:
        records.write("committed\n")
        records.flush()
        eventually("the producer writes", lambda: high_watermark(operator, "copied", partition) > 0, SECONDS)
        operator.freeze(*followers)
        records.write("not committed\n")
        records.flush()
        eventually("an entry is not committed", holds, SECONDS)
    cures.type("raftka doctor", "takes connections and answers nothing", code=1)
    cures.type("raftka dev restart N", RUNS, N=followers[0])
    operator.wake(followers[1])
    eventually("all entries are committed", lambda: not holds(), SECONDS)


@of_alerts("RaftkaMoveStuck")
def test_a_move_to_a_dead_broker_is_listed_and_taken_back(operator: Operator, cures: Cures) -> None:
    rows = json.loads(operator.type("raftka partition list single -f json"))
    number = next(row["partition"] for row in rows if row["replicas"] != [2])
    operator.type("raftka dev kill 2")
    operator.type(f"raftka partition move single/{number} --to 2")
    # The alert waits for ten minutes.
    idle = 2.0
    eventually(
        "the move has stopped", lambda: max(operator.values("raftka_move_idle_seconds"), default=0) > idle, SECONDS
    )
    cures.type("raftka partition moves", rf"single/{number} +\d +2 +copying", r"nodes \[2\] catch up")
    cures.type("raftka partition cancel --all", f"single/{number}: goes back")
    eventually("nothing is moved", lambda: operator.values("raftka_cluster_moves") == [0], SECONDS)
    operator.type("raftka dev restart 2")


@of_alerts("RaftkaRestarts")
def test_a_broker_that_was_started_thrice_says_why_in_its_log(operator: Operator, cures: Cures) -> None:
    starts = {max(operator.values("process_start_time_seconds", 3))}
    for _ in range(3):
        operator.type("raftka dev kill 3")
        operator.type("raftka dev restart 3")
        starts.add(max(operator.values("process_start_time_seconds", 3)))
    assert len(starts) - 1 > 2
    said = cures.type("raftka dev logs N -n 1000", N=3)
    # What stands before each start is among it.
    assert said.count("listens for Kafka") > 3
    operator.wait_no_problem()
    cures.type("raftka doctor", "1, 2, 3 answer", "broker 3: ready")


def test_the_page_shows_the_commands_that_are_typed() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations" / "alerts.md").read_text()
    for alert in ALERTS:
        section = page.partition(f"\n## {alert.name}\n")[2].partition("\n## ")[0]
        assert [line[2:] for line in section.splitlines() if line.startswith("$ ")] == list(alert.commands)
