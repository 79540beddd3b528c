"""What the commands say when something is wrong: too large lines, no leader, damaged data, Ctrl-C."""

import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.process.broker_processes import eventually
from tests.process.command_line import RAFTKA, SECONDS, DevFolder, environment, raftka, start_detached, started

pytestmark = pytest.mark.process

LINES = "".join(f"{number:06d} {'x' * 193}\n" for number in range(20_000))


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevFolder]:
    """Three brokers that a test may kill and damage."""
    # What is damaged is read from the disk.
    folder = start_detached(tmp_path / "dev", 3, read_cache_bytes=0)
    try:
        yield folder
    finally:
        folder.dev("stop")


def leader(dev: DevFolder, topic: str) -> int:
    (partition,) = json.loads(dev.client("topic", "describe", topic, "-f", "json").stdout)["partitions"]
    return int(partition["leader"])


def damage(dev: DevFolder, node: int) -> Path:
    """Flip bytes in the middle of the largest segment of one broker."""
    segments = (dev.path / f"node-{node}" / "data" / "groups").rglob("*.log")
    largest = max(segments, key=lambda path: path.stat().st_size)
    size = largest.stat().st_size
    with largest.open("r+b") as stream:
        stream.seek(size // 2)
        data = stream.read(size // 8)
        stream.seek(size // 2)
        stream.write(bytes(byte ^ 0xFF for byte in data))
    return largest


def test_a_line_above_the_limit_of_the_topic_is_named_and_the_others_are_written(dev: DevFolder) -> None:
    dev.client("topic", "create", "limits", "-p", "1")
    lines = "a\nb\n" + 2_000_000 * "x" + "\nc\n"
    told = dev.client("produce", "limits", stdin=lines, code=1).stderr
    assert "line 3: 2000000 bytes is more than the limit of topic limits (max.message.bytes)" in told
    assert "3 of the 4 lines" in told
    assert dev.client("consume", "limits", "-e").stdout == "a\nb\nc\n"
    dev.client("topic", "create", "large", "-p", "1", "-c", "max.message.bytes=4000000")
    dev.client("produce", "large", stdin=2_000_000 * "x")
    assert len(dev.client("consume", "large", "-e").stdout) == 2_000_001


def test_many_short_lines_are_not_one_batch_above_the_limit(dev: DevFolder) -> None:
    dev.client("topic", "create", "low", "-p", "1", "-c", "max.message.bytes=20000")
    assert dev.client("produce", "low", stdin=LINES).stdout == "20000 records written to low\n"


def test_a_partition_without_a_leader_is_named_by_who_waits_for_it(dev: DevFolder) -> None:
    dev.client("topic", "create", "single", "-p", "1", "-r", "1")
    dev.client("produce", "single", stdin="one\n")
    node = leader(dev, "single")
    bootstrap = ",".join(each["kafka"] for each in dev.status() if each["node_id"] != node)
    dev.dev("kill", str(node))
    arguments = ("single", "--brokers", bootstrap)
    ends = (["-e"], ["-n", "2"], ["-e", "--offset", "-1"])
    # Side by side: each of them waits.
    with ThreadPoolExecutor(len(ends) + 1) as pool:
        reads = [pool.submit(raftka, "consume", *arguments, *end, code=1) for end in ends]
        write = pool.submit(raftka, "produce", *arguments, "--timeout", "3", stdin="x\n", code=1)
        assert all("partition single-0 " in read.result().stderr for read in reads)
        assert "line 1: 1 bytes not acknowledged in 3 s: partition single-0 " in write.result().stderr
    with started([*RAFTKA, "consume", *arguments]) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        # Nobody asked for an end: it warns, goes on, and has the record when the leader is back.
        assert "partition single-0 " in follower.stderr.readline()
        dev.dev("restart", str(node))
        assert follower.stdout.readline() == "one\n"
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=SECONDS)
    assert follower.returncode == 0


def test_too_few_replicas_in_sync_are_named_by_who_waits_for_them(dev: DevFolder) -> None:
    dev.client("topic", "create", "strict", "-p", "1", "-r", "3", "-c", "min.insync.replicas=3")
    dev.client("produce", "strict", stdin="one\n")
    node = leader(dev, "strict") % 3 + 1
    bootstrap = ",".join(each["kafka"] for each in dev.status() if each["node_id"] != node)
    dev.dev("kill", str(node))
    # A broker that is gone counts as in sync for replica.lag.time.max.ms.
    told = raftka("produce", "strict", "--brokers", bootstrap, "--timeout", "15", stdin="x\n", code=1).stderr
    assert "partition strict-0 has 2 of 3 replicas in sync, min.insync.replicas is 3" in told


def test_a_broker_is_restarted_though_another_partition_has_no_leader(dev: DevFolder) -> None:
    for number in range(3):
        dev.client("topic", "create", f"pair-{number}", "-p", "1", "-r", "2")
    dev.dev("kill", "1")
    told = raftka("dev", "restart", "2", "--data-dir", str(dev.path))
    assert told.stdout.startswith("broker 2 runs (pid ")
    assert "raftka: warning: broker 2 is not ready: partition pair-" in told.stderr
    dev.dev("restart", "1")


def test_a_partition_that_cannot_be_read_is_named_with_the_brokers_answer(dev: DevFolder) -> None:
    dev.client("topic", "create", "broken", "-p", "1", "-r", "1")
    dev.client("produce", "broken", stdin=LINES)
    damage(dev, leader(dev, "broken"))
    # Until the damaged entries are in memory no more.
    for _ in range(5):
        dev.client("produce", "broken", stdin=LINES)
    read = dev.client("consume", "broken", "-e", code=1)
    assert LINES.startswith(read.stdout)
    assert "partition broken-0 cannot be read: broker" in read.stderr
    assert "answered KAFKA_STORAGE_ERROR" in read.stderr


def test_a_cluster_starts_with_a_damaged_replica_which_the_others_make_whole(dev: DevFolder) -> None:
    dev.client("topic", "create", "copies", "-p", "1", "-r", "3")
    dev.client("produce", "copies", stdin=LINES)
    eventually("every replica has all", dev.is_healthy, 30.0)
    dev.dev("stop")
    segment = damage(dev, 2)
    told = raftka("dev", "--detach", "--data-dir", str(dev.path))
    assert told.stdout.startswith("bootstrap: ")
    assert dev.client("consume", "copies", "-e").stdout == LINES
    eventually("the damaged replica has all again", dev.is_healthy, 30.0)
    log = (dev.path / "node-2" / "broker.log").read_text()
    assert any(str(segment) in line and "come from the others" in line for line in log.splitlines())


def lose_identity(dev: DevFolder, node: int) -> Path:
    """Delete the file that says whose log raft0's is."""
    path = dev.path / f"node-{node}" / "data" / "groups" / "raft0" / "replica.id"
    path.unlink()
    return path


def test_a_cluster_starts_without_a_broker_that_refuses_its_data_and_not_without_two(dev: DevFolder) -> None:
    dev.dev("stop")
    refused = [lose_identity(dev, 2)]
    told = raftka("dev", "--detach", "--data-dir", str(dev.path))
    assert "raftka: warning: broker 2 is not ready: it ended while starting (exit code 78): raftka: " in told.stderr
    assert str(refused[0]) in told.stderr
    assert [each["alive"] for each in dev.status()] == [True, False, True]
    dev.client("topic", "create", "served", "-r", "2")
    dev.dev("stop")
    refused.append(lose_identity(dev, 3))
    failure = raftka("dev", "--detach", "--data-dir", str(dev.path), code=1).stderr
    assert any(str(path) in failure for path in refused)
    assert not any(each["alive"] for each in dev.status())


@pytest.mark.parametrize("moment", range(4))
def test_ctrl_c_while_the_commands_are_loaded_is_quiet(moment: int) -> None:
    # Ctrl-C comes when the n-th of these modules is imported.
    module = ("click", "raftka.cli.root", "raftka.kafka.client", "raftka.cli.topic")[moment]
    program = f"""
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["raftka", "topic", "list", "--brokers", "127.0.0.1:1"]
from raftka.cli.main import main
main()
"""
    done = subprocess.run([*RAFTKA[:2], program], capture_output=True, text=True, timeout=SECONDS, env=environment())
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_doctor_names_a_killed_broker_what_it_costs_and_the_cure(dev: DevFolder) -> None:
    dev.client("topic", "create", "sick", "-p", "1", "-r", "3")
    dev.client("topic", "create", "strict", "-p", "1", "-r", "3", "-c", "min.insync.replicas=3")
    address = dev.status()[1]["kafka"]
    dev.dev("kill", "2")

    def problems() -> dict[str, dict[str, str]]:
        found = json.loads(dev.client("doctor", "cluster", "-f", "json", code=1).stdout)["findings"]
        return {each["what"]: each for each in found if each["level"] == "problem"}

    def told() -> dict[str, dict[str, str]] | None:
        # The others find out only when the broker has not answered for a while, each partition's leader by itself.
        found = problems()
        if not {"brokers", "replicas", "writes"} <= set(found) or "leaders" in found:
            return None
        return found if all(name in found["replicas"]["words"] for name in ("sick-0", "strict-0")) else None

    found = eventually("the doctor tells all of it", told, 60.0)
    assert address in found["brokers"]["words"]
    assert "raftka dev restart N" in found["brokers"]["cure"]
    assert "broker 2: " in found["replicas"]["words"]
    assert found["replicas"]["cure"].startswith("bring the missing brokers back; ")
    assert found["writes"]["words"] == "acks=all is refused by strict-0: min.insync.replicas is 3"
    lines = dev.client("doctor", "cluster", code=1).stdout
    assert "raftka dev restart N" in lines
    dev.dev("restart", "2")
    # Each broker hears of in-sync sets by itself, half a second later at most: two of them may answer differently.
    eventually("the cluster is healthy again", dev.is_healthy, 60.0)
    eventually("every broker knows it", dev.is_well, 60.0)
    healed = json.loads(dev.client("doctor", "cluster", "-f", "json").stdout)["findings"]
    assert [each["level"] for each in healed if each["what"] in {"brokers", "leaders", "replicas"}] == ["ok"] * 3
