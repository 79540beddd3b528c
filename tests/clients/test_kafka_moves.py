"""kafka-reassign-partitions moves partitions between four brokers that have the feature, at full speed and throttled."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.kafka_tools import MARKS, refused, run
from tests.clients.referee import Referee
from tests.process.broker_processes import ClusterMaker, eventually

pytestmark = MARKS

ROLES = ("leader", "follower")


@pytest.fixture(name="movable")
def fixture_movable(tmp_path: Path) -> Iterator[Referee]:
    maker = ClusterMaker(tmp_path)
    try:
        cluster = maker(4, **{"unstable.feature.versions.enable": True})
        cluster.start()
        yield Referee(cluster)
    finally:
        maker.stop()


class Tool:
    """kafka-reassign-partitions with a plan in a file."""

    def __init__(self, cluster: Referee, folder: Path) -> None:
        self.cluster = cluster
        self.plan = folder / "plan.json"

    def wants(self, **targets: list[int]) -> None:
        """Write the plan: where partition 0 of each topic is to be."""
        moves = [{"topic": topic, "partition": 0, "replicas": nodes} for topic, nodes in targets.items()]
        self.plan.write_text(json.dumps({"version": 1, "partitions": moves}))

    def __call__(self, option: str, *more: str) -> str:
        return run(self.cluster, "reassign-partitions", "--reassignment-json-file", str(self.plan), option, *more)

    def refused(self, option: str, *more: str) -> str:
        return refused(self.cluster, "reassign-partitions", "--reassignment-json-file", str(self.plan), option, *more)

    def proposed(self, *topics: str, brokers: list[int]) -> dict[str, list[int]]:
        """Return what `--generate` proposes, by topic."""
        file = self.plan.with_name("topics.json")
        file.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics]}))
        among = ",".join(map(str, brokers))
        words = ["--topics-to-move-json-file", str(file), "--broker-list", among, "--generate"]
        text = run(self.cluster, "reassign-partitions", *words)
        plan = json.loads(text.split("Proposed partition reassignment configuration")[1])
        return {each["topic"]: each["replicas"] for each in plan["partitions"]}

    def listed(self) -> str:
        return run(self.cluster, "reassign-partitions", "--list")

    def throttles(self, *topics: str) -> dict[str, str]:
        """Return the throttled rates of all brokers and the lists of topics that are set, by `broker or topic: key`."""
        found = {}
        for kind, names in (("brokers", map(str, (1, 2, 3, 4))), ("topics", topics)):
            for name in names:
                words = ["--describe", "--entity-type", kind, "--entity-name", name]
                for line in run(self.cluster, "configs", *words).splitlines():
                    key, _, value = line.strip().partition("=")
                    if ".throttled." in key:
                        found[f"{name}: {key}"] = value.split()[0]
        return found


def replicas_of(cluster: Referee, topic: str) -> list[int]:
    lines = run(cluster, "topics", "--describe", "--topic", topic).splitlines()
    (line,) = [each for each in lines if "Leader:" in each]
    return [int(node) for node in line.split("Replicas: ")[1].split()[0].split(",")]


def test_a_partition_moves_is_listed_verified_and_moved_back(movable: Referee, tmp_path: Path) -> None:
    run(movable, "topics", "--create", "--topic", "t", "--partitions", "1", "--replication-factor", "3")
    plan = tmp_path / "plan.json"

    def replicas() -> list[int]:
        (line,) = [
            each for each in run(movable, "topics", "--describe", "--topic", "t").splitlines() if "Leader:" in each
        ]
        return [int(node) for node in line.split("Replicas: ")[1].split()[0].split(",")]

    def asked(option: str, *more: str) -> str:
        return run(movable, "reassign-partitions", "--reassignment-json-file", str(plan), option, *more)

    def planned(nodes: list[int]) -> None:
        moved = {"topic": "t", "partition": 0, "replicas": nodes}
        plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))

    def is_completed() -> bool:
        return "Reassignment of partition t-0 is completed." in asked("--verify", "--preserve-throttles")

    def is_nothing_listed() -> bool:
        return "No partition reassignments found." in run(movable, "reassign-partitions", "--list")

    before = replicas()
    (other,) = {1, 2, 3, 4} - set(before)
    target = [*before[1:], other]
    for wanted in (target, before):
        planned(wanted)
        assert "Successfully started partition reassignment for t-0" in asked("--execute")
        eventually("the move is completed", is_completed)
        assert replicas() == wanted
        assert is_nothing_listed()
    # All is done.
    assert "None of the specified partition moves are active." in asked("--cancel", "--preserve-throttles")


def test_a_throttled_move_is_slow_can_be_cancelled_and_a_throttle_is_cleared_at_the_end(
    movable: Referee, tmp_path: Path
) -> None:
    tool = Tool(movable, tmp_path)
    for topic in ("t", "u"):
        run(movable, "topics", "--create", "--topic", topic, "--replica-assignment", "1:2:3")
    # At 50,000 bytes/s the move would take longer than this test.
    movable.fill("t", [os.urandom(5_000).hex() for _ in range(800)], 1)
    proposed = tool.proposed("t", "u", brokers=[2, 3, 4])
    assert {topic: sorted(nodes) for topic, nodes in proposed.items()} == {"t": [2, 3, 4], "u": [2, 3, 4]}
    tool.wants(t=[2, 3, 4])
    started = tool("--execute", "--throttle", "50000")
    assert "The inter-broker throttle limit was set to 50000 B/s" in started
    assert "Successfully started partition reassignment for t-0" in started
    rates = {f"{node}: {role}.replication.throttled.rate": "50000" for node in range(1, 5) for role in ROLES}
    lists = {
        "t: leader.replication.throttled.replicas": "0:1,0:2,0:3",
        "t: follower.replication.throttled.replicas": "0:4",
    }
    assert tool.throttles("t", "u") == rates | lists
    assert "t-0: replicas: 1,2,3,4. adding: 4. removing: 1." in tool.listed()
    assert "Reassignment of partition t-0 is still in progress." in tool("--verify")
    assert tool.throttles("t", "u") == rates | lists
    tool.wants(u=[2, 3, 4])
    assert "Cannot execute because there is an existing partition assignment" in tool.refused("--execute")
    assert "Successfully started" in tool("--execute", "--additional", "--throttle", "60000")
    assert set(tool.throttles("t").values()) == {"60000", *lists.values()}
    # It has no records, so its throttle does not matter. `--verify` clears the rates only once all moves have ended.
    eventually("u has moved", lambda: replicas_of(movable, "u") == [2, 3, 4])
    assert "t-0: replicas:" in tool.listed()
    tool.wants(t=[2, 3, 4])
    cancelled = tool("--cancel")
    assert "Successfully cancelled partition reassignment for: t-0" in cancelled
    assert "Clearing broker-level throttles on brokers 1,2,3,4" in cancelled
    eventually("the move is given up", lambda: "No partition reassignments found." in tool.listed())
    assert replicas_of(movable, "t") == [1, 2, 3]
    assert {name.split(":")[0] for name in tool.throttles("t", "u")} <= {"u"}
    tool.wants(t=[2, 3, 4], u=[2, 3, 4])
    assert "was set to 100000000 B/s" in tool("--execute", "--throttle", "100000000")
    assert tool.throttles("t") != {}

    def verified() -> str | None:
        said = tool("--verify")
        return said if "Reassignment of partition t-0 is completed." in said else None

    said = eventually("the move is completed", verified)
    assert "Clearing broker-level throttles on brokers 1,2,3,4" in said
    assert "Clearing topic-level throttles on topics t,u" in said
    assert tool.throttles("t", "u") == {}
    assert [replicas_of(movable, topic) for topic in ("t", "u")] == [[2, 3, 4]] * 2


def test_a_throttle_between_data_directories_is_refused_with_the_reason(movable: Referee) -> None:
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    alter = ["--alter", "--entity-type", "brokers", "--entity-name", "1"]
    assert "a broker has one data directory" in refused(movable, "configs", *alter, "--add-config", f"{key}=1000")
    assert "Completed updating config for broker 1." in run(movable, "configs", *alter, "--delete-config", key)
