"""A data directory that goes while its broker runs: the broker says so, ends, makes nothing anew, and comes back."""

import contextlib
import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import NewTopic

from tests.mount_namespace import mount_namespace
from tests.process.acked_log import quiet_logger, read_all
from tests.process.broker_processes import BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.kafka_topics import create_topic, request_topic, topics_at
from tests.process.living_clusters import check_logs, loads

pytestmark = pytest.mark.process


def _produce(cluster: BrokerCluster, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0


def _end_of(broker: BrokerProcess, exit_code: int = 1, seen: int = 0) -> str:
    """Wait until the broker ends by itself, and return the one line that it says of it, behind what was seen."""
    assert broker.wait_exit() == exit_code, broker.log_tail()
    said = broker.log_text()[seen:]
    assert "Traceback" not in said, broker.log_tail()
    assert "died" not in said, broker.log_tail()
    lines = [line for line in said.splitlines() if line.startswith("raftka: ")]
    assert len(lines) == 1, broker.log_tail()
    return lines[0]


def _is_created(bootstrap: str) -> bool:
    """Ask for the topic `meanwhile`: where the controller goes with its directory, the answer goes with it."""
    with contextlib.suppress(KafkaException):
        request_topic(bootstrap, NewTopic("meanwhile", 3, 3))
    return "meanwhile" in topics_at(bootstrap)


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_broker_whose_directory_is_moved_away_ends_makes_nothing_and_serves_when_it_is_back(
    make_cluster: ClusterMaker,
):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, "before", 1)
    first = [b"before the move %d" % number for number in range(20)]
    _produce(cluster, "before", first)
    victim = cluster[cluster.leader_of("before", 0)]
    away = victim.data_dir.with_name("away")
    victim.data_dir.rename(away)
    survivors = ",".join(broker.kafka for broker in cluster.brokers.values() if broker is not victim)
    _is_created(survivors)
    line = _end_of(victim)
    eventually("the topic is created", lambda: _is_created(survivors))
    assert f"data directory {victim.data_dir} is gone" in line
    assert "bring it back, then start this broker again" in line
    assert not victim.data_dir.exists(), _names(victim.data_dir)
    second = [b"while it was away %d" % number for number in range(20)]
    _produce(cluster, "before", second)
    away.rename(victim.data_dir)
    cluster.restart([victim.node_id])
    cluster.wait_in_sync("before", 0)
    for partition in range(3):
        cluster.wait_in_sync("meanwhile", partition)
    assert [record.value for record in read_all(victim.kafka, "before")] == first + second


def test_an_empty_directory_in_its_place_stays_empty(make_cluster: ClusterMaker):
    cluster = make_cluster(1)
    cluster.start()
    create_topic(cluster, "before", 1)
    _produce(cluster, "before", [b"kept"])
    broker = cluster[1]
    away = broker.data_dir.with_name("away")
    broker.data_dir.rename(away)
    broker.data_dir.mkdir()
    assert f"data directory {broker.data_dir} is gone" in _end_of(broker)
    assert _names(broker.data_dir) == []
    broker.data_dir.rmdir()
    away.rename(broker.data_dir)
    cluster.restart([1])
    assert [record.value for record in read_all(broker.kafka, "before")] == [b"kept"]


def test_a_directory_that_is_removed_ends_the_broker(make_cluster: ClusterMaker):
    cluster = make_cluster(1)
    cluster.start()
    broker = cluster[1]
    shutil.rmtree(broker.data_dir)
    assert "is gone" in _end_of(broker)
    assert not broker.data_dir.exists()


def test_a_directory_that_says_that_it_is_another_ends_the_broker(make_cluster: ClusterMaker):
    cluster, other = make_cluster(1), make_cluster(1)
    cluster.start()
    other.start()
    other[1].terminate()
    broker = cluster[1]
    kept = (broker.data_dir / "directory.id").read_bytes()
    # By a rename: the broker, which looks at any moment, finds the one file or the other, and no half of it.
    foreign = shutil.copy(other[1].data_dir / "directory.id", broker.data_dir / "directory.id.foreign")
    Path(foreign).rename(broker.data_dir / "directory.id")
    assert "has been replaced: it holds another directory.id, of node 1" in _end_of(broker)
    (broker.data_dir / "directory.id").write_bytes(kept)
    cluster.restart([1])


def test_a_broker_whose_disk_is_unmounted_ends_is_refused_without_it_and_serves_when_it_is_mounted_again(
    make_cluster: ClusterMaker, tmp_path: Path
):
    disk, mount_point = tmp_path / "disk", tmp_path / "mounted"
    disk.mkdir()
    mount_point.mkdir()
    cluster = make_cluster(1, **{"data.dir": str(mount_point / "data"), "disk.reserve.bytes": 0})
    broker = cluster[1]
    with mount_namespace() as there:
        try:
            there.run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk)
            there.run("mount", "--bind", disk, mount_point)
            broker.runs_by = there.entered
            cluster.start()
            create_topic(cluster, "before", 1)
            _produce(cluster, "before", [b"kept"])
            # Lazily: a mount that is in use leaves its place at once, and the broker keeps its open files.
            there.run("umount", "--lazy", mount_point)
            line = _end_of(broker)
            assert f"data directory {broker.data_dir} is gone: moved, removed, unmounted or replaced" in line
            assert "bring it back, then start this broker again" in line
            broker.config["data.dir.create"] = False
            seen = len(broker.log_text())
            broker.start()
            line = _end_of(broker, 78, seen)
            assert f"{broker.data_dir} does not exist, and data.dir.create is false: mount its disk" in line
            assert there.run("ls", "-A", mount_point) == "", "something was made in its place"
            there.run("mount", "--bind", disk, mount_point)
            cluster.restart([1])
            assert [record.value for record in read_all(broker.kafka, "before")] == [b"kept"]
        finally:
            # Its process holds the mounts.
            cluster.stop()
    assert _names(mount_point) == _names(disk) == []


def test_a_tmpfs_that_is_unmounted_under_load_is_refused_empty_and_replaced(make_cluster: ClusterMaker, tmp_path: Path):
    """What lay on it is gone for good: the broker says so at each step, and gets all of it back from the others."""
    mount_point = tmp_path / "mounted"
    mount_point.mkdir()
    cluster = make_cluster(3, **{"disk.reserve.bytes": 0})
    third = cluster[3]
    third.config["data.dir"] = str(mount_point)
    with mount_namespace() as there, ExitStack() as stack:
        # Its process holds the mounts: it ends before they do.
        stack.callback(cluster.stop)
        there.run("mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", mount_point)
        third.runs_by = there.entered
        cluster.start()
        create_topic(cluster, "t", 1, replicas=3)
        producers = loads(stack, cluster, "t")
        there.run("umount", "--lazy", mount_point)
        line = _end_of(third)
        assert f"data directory {mount_point} is gone: moved, removed, unmounted or replaced" in line
        assert "bring it back, then start this broker again" in line
        # A disk is mounted again, and it is empty.
        there.run("mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", mount_point)
        seen = len(third.log_text())
        third.start()
        line = _end_of(third, 78, seen)
        assert "node 3 is in the cluster with another data directory" in line
        assert "raftka broker replace 3" in line
        assert there.run("ls", "-A", mount_point).split() == ["lock"]
        raftka("broker", "replace", "3", RAFTKA_BROKERS=",".join(broker.kafka for broker in cluster.running))
        cluster.restart([3])
        cluster.wait_caught_up("t", 0)
        for load in producers:
            load.wait_acked(50)
        logs = [load.finish() for load in producers]
        cluster.wait_in_sync("t", 0)
        check_logs(cluster, "t", logs)
        assert "directory.id" in there.run("ls", "-A", mount_point).split()
    assert _names(mount_point) == [], "the machine's own mount point stays as it was"
