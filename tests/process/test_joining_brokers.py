"""Brokers that join a founded cluster: what they write and say before they are let in, and when they are not."""

import sys
from pathlib import Path
from typing import Any

import pytest

from raftka.admin_client import get_json, not_ready_reason
from tests.mount_namespace import mount_namespace
from tests.process.broker_processes import BrokerProcess, ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.former_version import former_python
from tests.process.kafka_topics import create_topic
from tests.process.living_clusters import only_founders_are_seeds

pytestmark = pytest.mark.process


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _reason(broker: BrokerProcess, words: str) -> dict[str, Any]:
    """Wait until a broker is not ready for a reason with these words, and return the answer of its admin port."""

    def answer() -> dict[str, Any] | None:
        if words not in (not_ready_reason(broker.admin) or ""):
            return None
        body = get_json(broker.admin, "/v1/status/ready")[1]
        return dict(body) if words in body.get("reason", "") else None

    return eventually(lambda: f"{words}; now: {not_ready_reason(broker.admin)}", answer)


def _refusal(broker: BrokerProcess) -> str:
    seen = len(broker.log_text())
    broker.start()
    return _end_of(broker, 78, seen)


def _end_of(broker: BrokerProcess, exit_code: int, seen: int = 0) -> str:
    assert broker.wait_exit() == exit_code, broker.log_tail()
    (line,) = (line for line in broker.log_text()[seen:].splitlines() if line.startswith("raftka: "))
    return line


def test_a_broker_that_is_no_seed_waits_writes_nothing_and_joins_when_a_seed_answers(make_cluster: ClusterMaker):
    cluster = make_cluster(4)
    only_founders_are_seeds(cluster, 3)
    fourth = cluster[4]
    fourth.start()
    answer = _reason(fourth, "starting: waiting for seeds to let this broker join their cluster: 1@")
    assert "start the brokers that do not answer (1, 2, 3)" in answer["cure"]
    assert _names(fourth.data_dir) == ["lock"]
    for number in (1, 2, 3):
        cluster[number].start()
    cluster.wait_ready()
    rows = get_json(cluster[1].admin, "/v1/brokers")[1]
    assert [row["node_id"] for row in rows] == [1, 2, 3, 4]
    create_topic(cluster, "t", 4)
    # Any broker will do to ask, and who is asked need not have founded the cluster.
    assert fourth.terminate() == 0
    fourth.config["seeds"] = cluster.seeds[1:2]
    cluster.restart([4])


def test_an_empty_directory_under_a_known_node_id_is_refused_and_stays_empty(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.start()
    third = cluster[3]
    assert third.terminate() == 0
    third.config["data.dir"] = str(cluster.folder / "empty")
    line = _refusal(third)
    assert "node 3 is in the cluster with another data directory" in line
    assert "raftka broker replace 3" in line
    assert _names(third.data_dir) == ["lock"]


@pytest.mark.slow
def test_below_the_level_nobody_joins_and_the_refusal_says_what_to_do(make_cluster: ClusterMaker, tmp_path: Path):
    cluster = make_cluster(4)
    only_founders_are_seeds(cluster, 3)
    former = former_python(tmp_path)
    for number in (1, 2, 3):
        cluster[number].python = former
        cluster[number].start()
    cluster.wait_ready()
    # An upgraded cluster stays at the level that it had.
    for number in (1, 2, 3):
        cluster[number].terminate()
        cluster[number].python = sys.executable
    cluster.restart([1, 2, 3])
    line = _refusal(cluster[4])
    assert "raftka.membership" in line
    assert "raftka cluster features upgrade" in line
    assert _names(cluster[4].data_dir) == ["lock"]


def test_a_broker_alone_with_a_secret_grows(make_cluster: ClusterMaker):
    cluster = make_cluster(2)
    cluster[1].config["seeds"] = []
    cluster[2].config["seeds"] = cluster.seeds[:1]
    cluster.start()
    assert [row["node_id"] for row in get_json(cluster[1].admin, "/v1/brokers")[1]] == [1, 2]
    cluster[1].terminate()
    cluster.restart([1])


def test_a_broker_alone_without_a_secret_lets_nobody_join(make_cluster: ClusterMaker):
    cluster = make_cluster(2)
    cluster[1].config["seeds"] = []
    del cluster[1].config["cluster.secret.file"]
    cluster[2].config["seeds"] = cluster.seeds[:1]
    cluster[1].start()
    cluster.wait_ready()
    cluster[2].start()
    _reason(cluster[2], "waiting for seeds to let this broker join")
    assert _names(cluster[2].data_dir) == ["lock"]
    assert [row["node_id"] for row in get_json(cluster[1].admin, "/v1/brokers")[1]] == [1]


def test_a_directory_that_is_replaced_while_its_broker_waits_gets_nothing_either(make_cluster: ClusterMaker):
    cluster = make_cluster(4)
    only_founders_are_seeds(cluster, 3)
    fourth = cluster[4]
    fourth.start()
    _reason(fourth, "waiting for seeds to let this broker join")
    away = fourth.data_dir.with_name("away")
    fourth.data_dir.rename(away)
    fourth.data_dir.mkdir()
    for number in (1, 2, 3):
        cluster[number].start()
    assert "while this broker waited for a seed; nothing was written" in _end_of(fourth, 1)
    assert (_names(away), _names(fourth.data_dir)) == (["lock"], [])
    # It was never let in, so another directory will do.
    cluster.restart([4])


def test_a_disk_that_is_mounted_over_an_empty_directory_gets_nothing_of_a_broker_that_waits(
    make_cluster: ClusterMaker, tmp_path: Path
):
    mount_point = tmp_path / "mounted"
    mount_point.mkdir()
    cluster = make_cluster(4, **{"disk.reserve.bytes": 0})
    only_founders_are_seeds(cluster, 3)
    fourth = cluster[4]
    fourth.config["data.dir"] = str(mount_point)
    with mount_namespace() as there:
        try:
            fourth.runs_by = there.entered
            fourth.start()
            _reason(fourth, "waiting for seeds to let this broker join")
            there.run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", mount_point)
            for number in (1, 2, 3):
                cluster[number].start()
            assert "mounted over while this broker waited" in _end_of(fourth, 1)
            assert there.run("ls", "-A", mount_point) == ""
            seen = len(fourth.log_text())
            cluster.restart([4])
            assert "directory.id" in there.run("ls", "-A", mount_point)
            # The disk goes while the broker serves: it ends, and the mount point below stays as it was.
            there.run("umount", "--lazy", mount_point)
            assert "is gone: moved, removed, unmounted or replaced" in _end_of(fourth, 1, seen)
            assert there.run("ls", "-A", mount_point).strip() == "lock"
            # Its start finds the empty directory, under a node id that the cluster knows.
            seen = len(fourth.log_text())
            fourth.start()
            assert "raftka broker replace 4" in _end_of(fourth, 78, seen)
            assert there.run("ls", "-A", mount_point).strip() == "lock"
        finally:
            # Its process holds the mounts.
            cluster.stop()


def test_a_removed_broker_serves_nobody_and_says_that_it_was_removed(make_cluster: ClusterMaker):
    cluster = make_cluster(4)
    only_founders_are_seeds(cluster, 3)
    cluster.start()
    fourth = cluster[4]
    raftka("broker", "decommission", "4", RAFTKA_BROKERS=cluster[1].kafka)
    raftka("broker", "remove", "4", RAFTKA_BROKERS=cluster[1].kafka)
    # By raft0's table if it got so far, else by the refusals of the others.
    words = ("was removed from the cluster", "is retired and never counts again")
    eventually("it says so", lambda: any(each in (not_ready_reason(fourth.admin) or "") for each in words))
    # A start of it learns it from the others' refusals, whatever it knew itself.
    seen = len(fourth.log_text())
    assert fourth.terminate() == 0
    fourth.start()
    eventually("it says so again", lambda: any(each in (not_ready_reason(fourth.admin) or "") for each in words))
    assert get_json(fourth.admin, "/v1/status/ready")[1]["cure"]
    eventually("the log has the cure", lambda: "leave it stopped" in fourth.log_text()[seen:])
    assert fourth.is_running
    for number in (1, 2, 3):
        assert not_ready_reason(cluster[number].admin) is None
