"""kafka-reassign-partitions moves partitions between four brokers that have the feature."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.kafka_tools import MARKS, run
from tests.clients.referee import Referee
from tests.process.broker_processes import ClusterMaker, eventually

pytestmark = MARKS


@pytest.fixture(name="movable")
def fixture_movable(tmp_path: Path) -> Iterator[Referee]:
    maker = ClusterMaker(tmp_path)
    try:
        cluster = maker(4, **{"unstable.feature.versions.enable": True})
        cluster.start()
        yield Referee(cluster)
    finally:
        maker.stop()


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
