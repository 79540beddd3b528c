"""What a broker must not start with: it says so in one line, ends with an exit code other than 0, and deletes nothing.

The exit code is 78 where the same start would be refused again, and 1 where the cause may go away by itself.
"""

import hashlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from raftka.admin_client import get_json, not_ready_reason
from tests.process.acked_log import quiet_logger, read_all
from tests.process.broker_processes import RPC_PORT, BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process


def _contents(folder: Path) -> dict[str, str]:
    """Return the names and digests of the files that hold data; RocksDB rearranges its own at every open."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent.name != "kvstore"
    }


def _refusal(broker: BrokerProcess, exit_code: int = 78) -> str:
    """Start a broker that must not start, and return the one line it says."""
    seen = len(broker.log_text())
    broker.start()
    code = broker.wait_exit()
    said = broker.log_text()[seen:]
    assert code == exit_code, said
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if line.startswith("raftka: ")]
    assert len(lines) == 1, said
    return lines[0]


def _started(make_cluster: ClusterMaker, size: int, **options: Any) -> BrokerCluster:
    cluster = make_cluster(size, **options)
    cluster.start()
    return cluster


def _produce(cluster: BrokerCluster, topic: str, text: str, batches: int = 60) -> list[bytes]:
    """Write batches one after the other at acks=all, so that each is fsynced before the next is sent."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "logger": quiet_logger()})
    values = [f"{text} {number} ".encode() * 20 for number in range(batches)]
    for value in values:
        producer.produce(topic, value, partition=0)
        assert producer.flush(60) == 0
    return values


def _flip(path: Path, at: float, count: int = 16) -> None:
    """Invert bytes at a fraction of a file."""
    content = bytearray(path.read_bytes())
    start = int(len(content) * at)
    for position in range(start, min(start + count, len(content))):
        content[position] ^= 0xFF
    path.write_bytes(content)


def test_a_data_directory_in_use_is_refused(make_cluster: ClusterMaker):
    cluster = _started(make_cluster, 1)
    intruder = make_cluster(1)[1]
    intruder.config["data.dir"] = str(cluster[1].data_dir)
    assert "in use by another broker process" in _refusal(intruder, 1)
    assert not_ready_reason(cluster[1].admin) is None


@pytest.mark.parametrize("name", ["kafka", "admin", "rpc"])
def test_a_taken_port_is_named_before_anything_is_founded(make_cluster: ClusterMaker, name: str):
    broker = make_cluster(3)[1]
    address, port = broker.config[f"{name}.address"], broker.config[f"{name}.port"]
    with socket.create_server((str(address), int(str(port)))):
        assert f"{name}.address, {name}.port: cannot listen at {address}:{port}: Address" in _refusal(broker, 1)
    assert not broker.data_dir.exists()


def test_another_node_s_directory_is_refused(make_cluster: ClusterMaker):
    cluster = _started(make_cluster, 3)
    for broker in cluster.brokers.values():
        broker.terminate()
    before = _contents(cluster[1].data_dir)
    cluster[2].config["data.dir"] = str(cluster[1].data_dir)
    line = _refusal(cluster[2])
    assert "belongs to node 1" in line
    assert "node.id is 2" in line
    assert _contents(cluster[1].data_dir) == before
    cluster[2].config["data.dir"] = str(cluster.folder / "node-2")
    cluster.restart(cluster.brokers)


def test_a_wiped_directory_is_refused_by_the_founded_brokers_and_named_on_their_admin_ports(make_cluster: ClusterMaker):
    cluster = _started(make_cluster, 3)
    cluster[3].kill()
    seen = len(cluster[3].log_text())
    cluster[3].config["data.dir"] = str(cluster.folder / "wiped")
    for _ in range(2):
        line = _refusal(cluster[3])
        assert "node 3 is in the cluster with another data directory: bring that directory back" in line
        assert "raftka broker replace 3" in line
        assert [path.name for path in (cluster.folder / "wiped").iterdir()] == ["lock"], "nothing is written"
    assert "founded cluster" not in cluster[3].log_text()[seen:]

    def refused(node: int) -> str | None:
        status, brokers = get_json(cluster[node].admin, "/v1/brokers")
        assert status == 200
        return next((each["refused"] for each in brokers if each["node_id"] == 3), None)

    told = eventually("a founded broker names it", lambda: refused(1) or refused(2))
    assert told.startswith("broker 3 came with another data directory")
    done = raftka("doctor", "cluster", "--brokers", cluster[1].kafka, "-f", "json", code=1)
    findings = json.loads(done.stdout)["findings"]
    assert "brokers" not in {each["what"] for each in findings}, "nobody is told to start it"
    (found,) = [each for each in findings if each["what"] == "broker 3"]
    assert found["words"].startswith("does not answer; links with it were refused (")
    assert found["cure"] == (
        "bring the original data directory of broker 3 back, and restart broker 3; if it is lost: raftka broker replace 3"
    )
    assert not_ready_reason(cluster[1].admin) is None
    cluster[3].config["data.dir"] = str(cluster.folder / "node-3")
    cluster.restart([3])
    eventually("the links work again", lambda: refused(1) is None and refused(2) is None)


def test_a_missing_directory_is_not_made_where_that_is_forbidden(make_cluster: ClusterMaker):
    broker = make_cluster(1, **{"data.dir.create": False})[1]
    for _ in range(2):
        line = _refusal(broker)
        assert f"data directory {broker.data_dir} does not exist, and data.dir.create is false" in line
        assert f"mkdir -m 700 {broker.data_dir}" in line
        assert not broker.data_dir.exists()
    broker.data_dir.mkdir(0o700)
    broker.start()
    broker.wait_ready()
    assert broker.terminate() == 0


def test_wiped_logs_under_a_kept_identity_are_refused_and_the_others_serve_on(make_cluster: ClusterMaker):
    cluster = _started(make_cluster, 3)
    create_topic(cluster, "orders")
    values = _produce(cluster, "orders", "before", batches=5)
    cluster.wait_in_sync("orders", 0)
    victim = cluster[3]
    victim.kill()
    groups, moved = victim.data_dir / "groups", cluster.folder / "moved"
    groups.rename(moved)
    before = _contents(victim.data_dir)
    for _ in range(2):
        line = _refusal(victim)
        assert f"{groups}/raft0/replica.id is missing" in line
        assert "its log was lost or moved away" in line
        assert "bring the whole data directory back" in line
        assert not groups.exists()
        assert _contents(victim.data_dir) == before
    values += _produce(cluster, "orders", "by the others", batches=5)
    assert [record.value for record in read_all(cluster.bootstrap, "orders")] == values
    moved.rename(groups)
    cluster.restart([3])
    cluster.wait_in_sync("orders", 0)
    assert [record.value for record in read_all(cluster.bootstrap, "orders")] == values


def test_segments_lost_beside_their_identity_are_refused_and_the_others_serve_on(make_cluster: ClusterMaker):
    cluster = _started(make_cluster, 3)
    create_topic(cluster, "orders")
    values = _produce(cluster, "orders", "before", batches=5)
    cluster.wait_in_sync("orders", 0)
    victim = cluster[2]
    assert victim.terminate() == 0
    raft0, moved = victim.data_dir / "groups" / "raft0", cluster.folder / "moved"
    moved.mkdir()
    lost = [path.name for path in raft0.iterdir() if path.suffix in (".log", ".index")]
    for name in lost:
        (raft0 / name).rename(moved / name)
    before = _contents(victim.data_dir)
    for _ in range(2):
        line = _refusal(victim)
        assert f"{raft0} holds no segment" in line
        assert "lost or moved away" in line
        assert "bring the whole data directory back" in line
        assert _contents(victim.data_dir) == before
    values += _produce(cluster, "orders", "by the others", batches=5)
    assert [record.value for record in read_all(cluster.bootstrap, "orders")] == values
    for name in lost:
        (moved / name).rename(raft0 / name)
    cluster.restart([2])
    cluster.wait_in_sync("orders", 0)


@pytest.mark.parametrize("lost", [["kvstore"], ["kvstore", "directory.id"]])
def test_a_lost_kvstore_is_refused_and_no_other_identity_is_drawn(make_cluster: ClusterMaker, lost: list[str]):
    cluster = _started(make_cluster, 1)
    create_topic(cluster, "orders")
    values = _produce(cluster, "orders", "kept", batches=3)
    cluster[1].kill()
    data_dir = cluster[1].data_dir
    moved = cluster.folder / "moved"
    moved.mkdir()
    for name in lost:
        (data_dir / name).rename(moved / name)
    before = _contents(data_dir)
    for _ in range(2):
        line = _refusal(cluster[1])
        assert "missing" in line
        assert "bring the whole data directory back" in line
        assert _contents(data_dir) == before
    for path in (data_dir / "kvstore").iterdir():  # The one that the refused starts made; nothing is in it.
        path.unlink()
    (data_dir / "kvstore").rmdir()
    for name in lost:
        (moved / name).rename(data_dir / name)
    cluster.restart([1])
    assert [record.value for record in read_all(cluster.bootstrap, "orders")] == values


def test_once_a_cluster_is_founded_seeds_are_only_whom_to_ask(make_cluster: ClusterMaker):
    cluster = _started(make_cluster, 3)
    for seeds in ([*cluster.seeds, f"4@{cluster.network}.4:{RPC_PORT}"], cluster.seeds[:1], cluster.seeds):
        cluster[3].terminate()
        cluster[3].config["seeds"] = seeds
        cluster.restart([3])


def test_seeds_that_disagree_found_nothing(make_cluster: ClusterMaker):
    cluster = make_cluster(2)
    cluster[2].config["seeds"] = [*cluster.seeds, f"3@{cluster.network}.3:{RPC_PORT}"]
    pair = [cluster[1], cluster[2]]
    for broker in pair:
        broker.start()
    # Whoever asks first sees it and leaves; the other then waits for it.
    eventually("one of them leaves", lambda: not all(broker.is_running for broker in pair))
    gone = next(broker for broker in pair if not broker.is_running)
    assert gone.exit_code == 1
    assert "was configured with other seeds" in gone.log_text()
    assert not any("founded cluster" in broker.log_text() for broker in pair)


def test_seeds_without_a_secret_are_refused(make_cluster: ClusterMaker):
    broker = make_cluster(3)[1]
    del broker.config["cluster.secret.file"]
    assert "cluster.secret.file" in _refusal(broker)


def test_an_empty_and_a_missing_secret_file_are_refused(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.secret_path.write_bytes(b"\n")
    assert "is empty" in _refusal(cluster[1])
    cluster.secret_path.unlink()
    assert str(cluster.secret_path) in _refusal(cluster[1])


def test_a_bad_configuration_is_named(make_cluster: ClusterMaker):
    broker = make_cluster(1)[1]
    broker.config["kafka.prt"] = 1
    assert "kafka.prt" in _refusal(broker)


def test_a_damaged_kvstore_is_refused_and_left_as_it_is(make_cluster: ClusterMaker):
    cluster = _started(make_cluster, 1)
    create_topic(cluster, "votes", partitions=20)  # Twenty votes in the WAL.
    cluster[1].kill()
    kvstore = cluster[1].data_dir / "kvstore"
    [wal] = kvstore.glob("*.log")
    _flip(wal, 0.5)
    data = {path: path.read_bytes() for path in (wal, *kvstore.glob("*.sst"), *kvstore.glob("MANIFEST-*"))}
    before = _contents(cluster[1].data_dir)
    for _ in range(2):
        assert str(kvstore) in _refusal(cluster[1], 1)
        assert {path: path.read_bytes() for path in data} == data
        assert _contents(cluster[1].data_dir) == before


def _rot(segment: Path, value: bytes) -> None:
    """Write other bytes into a value, in place: where a running broker reads them."""
    with segment.open("r+b") as file:
        file.seek(segment.read_bytes().index(value) + 10)
        file.write(b"ROT")


def _end(broker: BrokerProcess, end: str) -> None:
    if end == "killed":
        broker.kill()
    else:
        assert broker.terminate() == 0


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_damaged_partition_without_other_replicas_is_named_and_the_others_serve_on(
    make_cluster: ClusterMaker, end: str
):
    cluster = _started(make_cluster, 1)
    values = {}
    for topic in ("damaged", "healthy"):
        create_topic(cluster, topic)
        values[topic] = _produce(cluster, topic, f"{topic} record")
    broker = cluster[1]
    _end(broker, end)
    segment = _segment_with(broker.data_dir, values["damaged"][30])
    _rot(segment, values["damaged"][30])
    before = _contents(segment.parent)

    for _ in range(2):
        seen = len(broker.log_text())
        broker.start()
        eventually("readiness names the partition", lambda: "cannot start" in (not_ready_reason(broker.admin) or ""))
        assert f"{segment} is damaged at byte" in not_ready_reason(broker.admin)
        [told] = [line for line in broker.log_text()[seen:].splitlines() if "damaged-0 cannot start here" in line]
        assert "no other replica has what is lost: restore this one" in told
        assert _contents(segment.parent) == before
        assert [record.value for record in read_all(cluster.bootstrap, "healthy")] == values["healthy"]
        assert broker.terminate() == 0
        assert _contents(segment.parent) == before


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_damaged_replica_is_named_at_the_start_and_made_whole_by_the_others(make_cluster: ClusterMaker, end: str):
    cluster = _started(make_cluster, 3)
    create_topic(cluster, "damaged")
    values = _produce(cluster, "damaged", "a record")
    cluster.wait_in_sync("damaged", 0)
    victim = cluster[cluster.leader_of("damaged", 0)]
    _end(victim, end)
    segment = _segment_with(victim.data_dir, values[30])
    _rot(segment, values[30])
    assert not _is_on_disk(victim, values)
    values += _produce(cluster, "damaged", "written by the majority", batches=3)
    assert [record.value for record in read_all(cluster.bootstrap, "damaged")] == values

    seen = len(victim.log_text())
    cluster.restart([victim.node_id])
    cluster.wait_in_sync("damaged", 0)
    [told] = [line for line in victim.log_text()[seen:].splitlines() if "come from the others" in line]
    assert "ERROR" in told
    assert f"{segment} is damaged at byte" in told
    assert "restore" not in told, "nothing is left to do for a person"
    _assert_is_whole(cluster, "damaged", victim, segment, values, seen)


def test_bit_rot_in_a_closed_segment_is_found_by_a_read_and_mended_by_the_others(make_cluster: ClusterMaker):
    # Nothing is kept for readers, and more is written than a log keeps of its newest entries (16 MiB): the first ones
    # are read from the disk.
    cluster = _started(make_cluster, 3, **{"read.cache.bytes": 0})
    create_topic(cluster, "rotten", **{"segment.bytes": str(1024 * 1024)})
    values = _produce(cluster, "rotten", "a record" * 2000, batches=70)
    cluster.wait_in_sync("rotten", 0)
    victim = cluster[cluster.leader_of("rotten", 0)]
    segment = _segment_with(victim.data_dir, values[1])
    assert segment != _segment_with(victim.data_dir, values[-1])
    seen = len(victim.log_text())
    _rot(segment, values[1])

    assert [record.value for record in read_all(cluster.bootstrap, "rotten")] == values
    values += _produce(cluster, "rotten", "written by the majority", batches=3)
    cluster.wait_in_sync("rotten", 0)
    said = victim.log_text()[seen:].splitlines()
    named = [line for line in said if "ERROR" in line and f"{segment} is damaged at byte" in line]
    steps = ("a read found damage", "stops: CorruptLogError", "are damaged and come from the others")
    assert [[step in line for step in steps].index(True) for line in named] == [0, 1, 2]
    assert any("rotten-0 is opened again without what is damaged" in line for line in said)
    _assert_is_whole(cluster, "rotten", victim, segment, values, seen)


def _assert_is_whole(
    cluster: BrokerCluster, topic: str, victim: BrokerProcess, segment: Path, values: list[bytes], seen: int
) -> None:
    """The victim holds everything again and says so, keeps no damaged copies, and serves with any other broker."""
    eventually("it votes again", lambda: "has its entries back" in victim.log_text()[seen:])
    eventually("the damaged copies are gone", lambda: not list(segment.parent.glob("*.damaged")))
    cluster.wait_ready()
    assert _is_on_disk(victim, values)
    other = next(node for node in cluster.brokers if node != victim.node_id)
    assert cluster[other].terminate() == 0
    cluster.leader_of(topic, 0, other_than=other)
    assert [record.value for record in read_all(cluster.bootstrap, topic)] == values
    assert victim.terminate() == 0


def _is_on_disk(broker: BrokerProcess, values: list[bytes]) -> bool:
    segments = [path.read_bytes() for path in (broker.data_dir / "groups").rglob("*.log")]
    return all(any(value in segment for segment in segments) for value in values)


def _segment_with(data_dir: Path, value: bytes) -> Path:
    [found] = [path for path in (data_dir / "groups").rglob("*.log") if value in path.read_bytes()]
    return found


def test_a_secret_that_everybody_can_read_is_refused(make_cluster: ClusterMaker):
    cluster = make_cluster(2)
    cluster.secret_path.chmod(0o644)
    assert f"chmod 600 {cluster.secret_path}" in _refusal(cluster[1])


def test_what_a_broker_makes_is_for_its_own_user_alone(make_cluster: ClusterMaker):
    cluster = _started(make_cluster, 1)
    create_topic(cluster, "t", 1, 1)
    data = cluster[1].data_dir
    ours = [path for path in [data, *data.rglob("*")] if path.parent.name != "kvstore"]
    assert len(ours) > 5
    assert {path.name for path in ours if path.stat().st_mode & 0o077} == set()
