"""A dev cluster gets a broker and gives one up while it works, by the command line alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.process.acked_log import LoadProducer, check_no_phantom, check_nothing_acked_is_lost, read_all
from tests.process.broker_processes import eventually
from tests.process.command_line import FREE_PORTS, DevFolder, raftka, start_detached

pytestmark = pytest.mark.process


def _printed_bootstrap(text: str) -> str:
    (line,) = (line for line in text.splitlines() if line.startswith("bootstrap: "))
    return line.removeprefix("bootstrap: ").strip()


def _rows(bootstrap: str, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _read(bootstrap, *words)
    return found


def _read(bootstrap: str, *words: str) -> Any:
    return json.loads(raftka(*words, "-f", "json", RAFTKA_BROKERS=bootstrap).stdout)


def _is_empty(bootstrap: str, node: int) -> bool:
    (row,) = (row for row in _rows(bootstrap, "broker", "list") if row["node_id"] == node)
    return bool(row["replicas"] == 0 and row["raft0"] != "voter")


def _wait_for_voters(folder: DevFolder, *nodes: int) -> None:
    """A broker that has just come is no voter of raft0 yet: until it is, raft0 does not go on without another."""

    def voters() -> set[int]:
        return {row["node_id"] for row in _rows(folder.bootstrap, "broker", "list") if row["raft0"] == "voter"}

    eventually(f"raft0 has the voters {nodes}", lambda: voters() == set(nodes))


def _lose_disk(folder: DevFolder, node: int) -> None:
    shutil.rmtree(folder.path / f"node-{node}" / "data")


def _replace(folder: DevFolder, node: int) -> None:
    """Give up a broker's directory, start it with an empty one, and wait until all is as before."""
    alive = ",".join(each["kafka"] for each in folder.status() if each["alive"])
    raftka("broker", "replace", str(node), RAFTKA_BROKERS=alive)
    folder.dev("restart", str(node))
    # A replica that is on its way to a new disk is no fault, so health alone does not wait for it.
    eventually(
        f"broker {node} has its replicas",
        lambda: all(node in row["in_sync"] for row in _rows(folder.bootstrap, "partition", "list", "t")),
    )
    eventually("cluster health says healthy", folder.is_healthy)


def test_a_broker_joins_takes_the_place_of_another_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    folder = start_detached(tmp_path / "dev", 3)
    try:
        folder.client("topic", "create", "t", "-p", "1", "-r", "3")
        folder.client("topic", "create", "many", "-p", "6", "-r", "3")
        with LoadProducer(folder.bootstrap, "t", "load", acks="all") as load:
            load.wait_acked(200)
            grown = _printed_bootstrap(folder.dev("add"))
            assert grown == folder.bootstrap
            assert [each["node_id"] for each in folder.status()] == [1, 2, 3, 4]
            load.wait_acked(200)
            refused = raftka("dev", "remove", "1", "--data-dir", str(folder.path), code=1).stderr
            assert "raftka broker decommission 1" in refused
            assert [each["alive"] for each in folder.status()] == [True] * 4
            raftka("broker", "decommission", "1", RAFTKA_BROKERS=grown)
            eventually("broker 1 is empty", lambda: _is_empty(grown, 1))
            first = folder.status()[0]["kafka"]
            said = folder.dev("remove", "1")
            assert f"nobody listens at {first} any more" in said
            left = _printed_bootstrap(said)
            assert left == folder.bootstrap == ",".join(grown.split(",")[1:])
            load.wait_acked(200)
            log = load.finish()
        assert [(each["node_id"], each["alive"]) for each in folder.status()] == [(2, True), (3, True), (4, True)]
        for topic in ("t", "many"):
            for row in _rows(left, "partition", "list", topic):
                assert sorted(row["replicas"]) == [2, 3, 4]
        eventually("cluster health says healthy", folder.is_healthy)
        records = read_all(left, "t")
        check_nothing_acked_is_lost(records, log)
        check_no_phantom(records, [log])
        assert not log.failed
        # It is a cluster like any other: each broker starts again, one and all.
        folder.dev("restart", "4")
        assert "4 | " in folder.dev("logs", "4", "-n", "1")
        assert (
            "there is no broker 1: the cluster has brokers 2 to 4"
            in raftka("dev", "restart", "1", "--data-dir", str(folder.path), code=1).stderr
        )
        folder.dev("stop")
        assert _printed_bootstrap(folder.dev("--detach")) == left
        # No node id is used twice.
        folder.dev("add")
        assert [each["node_id"] for each in folder.status()] == [2, 3, 4, 5]
        check_nothing_acked_is_lost(read_all(left, "t"), log)
    finally:
        folder.dev("stop")


def test_a_cluster_of_one_grows(tmp_path: Path) -> None:
    folder = DevFolder(tmp_path / "dev")
    folder.dev("-n", "1", "--detach", *FREE_PORTS)
    try:
        folder.dev("add")
        folder.dev("add")
        folder.client("topic", "create", "t", "-p", "1")
        (row,) = _rows(folder.bootstrap, "partition", "list", "t")
        assert sorted(row["replicas"]) == [1, 2, 3], "the default follows the brokers"
    finally:
        folder.dev("stop")


def test_the_founder_of_a_grown_cluster_loses_its_disk_and_joins_again(tmp_path: Path) -> None:
    folder = DevFolder(tmp_path / "dev")
    folder.dev("-n", "1", "--detach", *FREE_PORTS)
    try:
        for _ in range(2):
            folder.dev("add")
        folder.client("topic", "create", "t", "-p", "1", "-r", "3")
        _wait_for_voters(folder, 1, 2, 3)
        folder.dev("kill", "1")
        _lose_disk(folder, 1)
        # It founds no second cluster, and is not taken for the broker that it was.
        said = raftka("dev", "restart", "1", "--data-dir", str(folder.path), code=1).stderr
        assert "raftka broker replace 1" in said
        _replace(folder, 1)
        ids = {_read(each["kafka"], "cluster", "info")["cluster_id"] for each in folder.status()}
        assert len(ids) == 1
    finally:
        folder.dev("stop")


def test_the_last_founder_loses_its_disk_and_joins_again(tmp_path: Path) -> None:
    folder = start_detached(tmp_path / "dev", 2)
    try:
        folder.dev("add")
        folder.dev("add")
        raftka("broker", "decommission", "1", RAFTKA_BROKERS=folder.bootstrap)
        folder.dev("remove", "1")
        folder.client("topic", "create", "t", "-p", "1", "-r", "3")
        _wait_for_voters(folder, 2, 3, 4)
        folder.dev("kill", "2")
        _lose_disk(folder, 2)
        _replace(folder, 2)
    finally:
        folder.dev("stop")


def test_the_only_broker_is_not_removed(tmp_path: Path) -> None:
    folder = start_detached(tmp_path / "dev", 1)
    try:
        said = raftka("dev", "remove", "1", "--data-dir", str(folder.path), code=1).stderr
        assert "broker 1 is the only one" in said
        assert [each["node_id"] for each in folder.status()] == [1]
    finally:
        folder.dev("stop")
