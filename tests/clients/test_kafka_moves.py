"""kafka-reassign-partitions moves partitions between seven brokers that have the feature, at full speed and throttled."""

import os
from pathlib import Path

from tests.clients.kafka_tools import MARKS, refused, run, tried
from tests.clients.reassigning import Reassigning, create_at, described_partitions, replicas_of
from tests.clients.referee import Referee
from tests.process.broker_processes import eventually

pytestmark = MARKS

ROLES = ("leader", "follower")
EVERYBODY = "1,2,3,4,5,6,7"


def fill(cluster: Referee, topic: str) -> None:
    """Write so much that a move at 50,000 bytes/s takes longer than a test."""
    cluster.fill(topic, [os.urandom(5_000).hex() for _ in range(800)], 1)


def test_a_partition_moves_is_listed_verified_and_moved_back(living_tools: Referee, tmp_path: Path) -> None:
    topic = "moves.there-and-back"
    create_at(living_tools, topic, [1, 2, 3])
    tool = Reassigning(living_tools, tmp_path)
    for wanted in ([2, 3, 4], [1, 2, 3]):
        tool.wants({topic: wanted})
        assert f"Successfully started partition reassignment for {topic}-0" in tool("--execute")
        completed = f"Reassignment of partition {topic}-0 is completed."
        eventually("the move is completed", lambda done=completed: done in tool("--verify", "--preserve-throttles"))
        assert replicas_of(living_tools, topic) == wanted
        assert "No partition reassignments found." in tool.listed()
    # All is done.
    assert "None of the specified partition moves are active." in tool("--cancel", "--preserve-throttles")


def test_a_throttled_move_is_slow_and_another_one_may_be_added(living_tools: Referee, tmp_path: Path) -> None:
    slow, empty = "moves.slow", "moves.empty"
    tool = Reassigning(living_tools, tmp_path)
    for topic in (slow, empty):
        create_at(living_tools, topic, [1, 2, 3])
    fill(living_tools, slow)
    proposed = tool.proposed(slow, empty, brokers=[2, 3, 4])
    assert {topic: sorted(nodes) for topic, nodes in proposed.items()} == {slow: [2, 3, 4], empty: [2, 3, 4]}
    tool.wants({slow: [2, 3, 4]})
    started = tool("--execute", "--throttle", "50000")
    assert "The inter-broker throttle limit was set to 50000 B/s" in started
    assert f"Successfully started partition reassignment for {slow}-0" in started
    rates = {f"{node}: {role}.replication.throttled.rate": "50000" for node in range(1, 5) for role in ROLES}
    lists = {
        f"{slow}: leader.replication.throttled.replicas": "0:1,0:2,0:3",
        f"{slow}: follower.replication.throttled.replicas": "0:4",
    }
    assert f"{slow}-0: replicas: 1,2,3,4. adding: 4. removing: 1." in tool.listed()
    assert f"Reassignment of partition {slow}-0 is still in progress." in tool("--verify")
    assert tool.throttles() == rates | lists
    tool.wants({empty: [2, 3, 4]})
    assert "Cannot execute because there is an existing partition assignment" in tool.refused("--execute")
    assert "Successfully started" in tool("--execute", "--additional", "--throttle", "60000")
    assert {value for key, value in tool.throttles().items() if key.endswith(".rate")} == {"60000"}
    # It has no records, so its throttle does not matter. `--verify` clears the rates only once all moves have ended.
    eventually("the empty one has moved", lambda: replicas_of(living_tools, empty) == [2, 3, 4])
    assert f"{slow}-0: replicas:" in tool.listed()
    tool.wants({slow: [2, 3, 4]})
    cancelled = tool("--cancel")
    assert f"Successfully cancelled partition reassignment for: {slow}-0" in cancelled
    assert f"Clearing broker-level throttles on brokers {EVERYBODY}" in cancelled
    eventually("the move is given up", lambda: "No partition reassignments found." in tool.listed())
    assert replicas_of(living_tools, slow) == [1, 2, 3]
    # What was set for the other move stays until that one is verified.
    tool.wants({empty: [2, 3, 4]})
    assert f"Clearing topic-level throttles on topic {empty}" in tool("--verify")
    assert tool.throttles() == {}


def test_a_throttle_is_cleared_once_the_move_is_verified(living_tools: Referee, tmp_path: Path) -> None:
    topic = "moves.throttled"
    tool = Reassigning(living_tools, tmp_path)
    create_at(living_tools, topic, [1, 2, 3])
    fill(living_tools, topic)
    tool.wants({topic: [4, 5, 6]})
    assert "was set to 100000000 B/s" in tool("--execute", "--throttle", "100000000")

    def verified() -> str | None:
        said = tool("--verify")
        return said if f"Reassignment of partition {topic}-0 is completed." in said else None

    said = eventually("the move is completed", verified)
    assert f"Clearing broker-level throttles on brokers {EVERYBODY}" in said
    assert f"Clearing topic-level throttles on topic {topic}" in said
    assert tool.throttles() == {}
    assert replicas_of(living_tools, topic) == [4, 5, 6]


def test_a_topic_that_is_being_moved_is_described_and_gets_more_partitions(
    living_tools: Referee, tmp_path: Path
) -> None:
    topic = "moves.described"
    tool = Reassigning(living_tools, tmp_path)
    create_at(living_tools, topic, [1, 2, 3])
    fill(living_tools, topic)
    (row,) = described_partitions(living_tools, topic)
    assert "Adding Replicas" not in row
    tool.wants({topic: [5, 2, 3]})
    tool("--execute", "--throttle", "50000")
    (row,) = described_partitions(living_tools, topic)
    assert [sorted(row["Replicas"].split(",")), row["Adding Replicas"], row["Removing Replicas"]] == [
        ["1", "2", "3", "5"],
        "5",
        "1",
    ]
    assert sorted(row["Isr"].split(",")) == ["1", "2", "3"]
    # The replicas that are on their way do not count, as with Kafka.
    assert "ReplicationFactor: 3" in run(living_tools, "topics", "--describe", "--topic", topic)
    assert described_partitions(living_tools, topic, "--under-replicated-partitions") == []
    run(living_tools, "topics", "--alter", "--topic", topic, "--partitions", "3")
    first, *new = described_partitions(living_tools, topic)
    assert (first["Adding Replicas"], first["Removing Replicas"]) == ("5", "1")
    assert [len(each["Replicas"].split(",")) for each in new] == [3, 3]
    assert all("Adding Replicas" not in each for each in new)
    tool("--cancel")
    eventually("the move is given up", lambda: "No partition reassignments found." in tool.listed())
    first, *_ = described_partitions(living_tools, topic)
    assert (first["Replicas"], "Adding Replicas" in first) == ("1,2,3", False)


def test_the_preferred_leader_of_a_moved_partition_is_elected(living_tools: Referee, tmp_path: Path) -> None:
    topic = "moves.elected"
    tool = Reassigning(living_tools, tmp_path)
    create_at(living_tools, topic, [1, 2, 3])
    living_tools.leader_of(topic)
    # The broker that is to be preferred comes by this move; who leads now stays.
    tool.wants({topic: [4, 1, 2]})
    tool("--execute")
    eventually("it has moved", lambda: replicas_of(living_tools, topic) == [4, 1, 2])
    one = ("--election-type", "preferred", "--topic", topic, "--partition", "0")

    def is_elected() -> bool:
        # Until the preferred one has caught up, it is refused.
        said = tried(living_tools, "leader-election", *one)
        return "Successfully completed leader election" in said or "Valid replica already elected" in said

    eventually("the preferred leader", is_elected)
    eventually("it in office", lambda: living_tools.leader_of(topic) == 4)
    # The one that has left cannot be elected.
    (row,) = described_partitions(living_tools, topic)
    assert (row["Leader"], row["Replicas"], sorted(row["Isr"].split(","))) == ("4", "4,1,2", ["1", "2", "4"])
    assert "already elected" in run(living_tools, "leader-election", *one)


def test_a_throttle_between_data_directories_is_refused_with_the_reason(living_tools: Referee) -> None:
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    alter = ["--alter", "--entity-type", "brokers", "--entity-name", "1"]
    assert "a broker has one data directory" in refused(living_tools, "configs", *alter, "--add-config", f"{key}=1000")
    assert "Completed updating config for broker 1." in run(living_tools, "configs", *alter, "--delete-config", key)
