"""`raftka dev` and the client commands, as a person uses them: real processes, nothing but the command line."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.dev.process_identity import ProcessIdentity
from tests.process.broker_processes import eventually
from tests.process.command_line import (
    FREE_PORTS,
    RAFTKA,
    SECONDS,
    DevFolder,
    raftka,
    read_until,
    start_detached,
    started,
)

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevFolder]:
    """Three brokers that these tests share; whoever kills one starts it again."""
    folder = start_detached(tmp_path_factory.mktemp("three") / "dev", 3)
    try:
        yield folder
    finally:
        folder.dev("stop")


def test_status_tells_where_each_broker_is(three: DevFolder) -> None:
    brokers = three.status()
    assert [each["node_id"] for each in brokers] == [1, 2, 3]
    assert all(each["alive"] for each in brokers)
    assert {key for each in brokers for key in each} == {"node_id", "pid", "kafka", "admin", "data_dir", "alive"}
    assert "alive" in three.dev("status")


def test_a_topic_lives_from_create_to_delete(three: DevFolder) -> None:
    three.client("topic", "create", "life", "-p", "2", "-r", "3")
    listed = json.loads(three.client("topic", "list", "--format", "json").stdout)
    assert {"name": "life", "partitions": 2, "replicas": 3} in listed
    described = json.loads(three.client("topic", "describe", "life", "--format", "json").stdout)
    assert [sorted(each["replicas"]) for each in described["partitions"]] == [[1, 2, 3], [1, 2, 3]]
    assert "exists" in three.client("topic", "create", "life", code=1).stderr
    three.client("topic", "delete", "life")
    assert "no topic 'life'" in three.client("topic", "delete", "life", code=1).stderr
    assert (
        "no topic 'life'; create it: raftka topic create life"
        in three.client("topic", "describe", "life", code=1).stderr
    )


def test_describe_shows_positions_where_an_admin_port_is_given(three: DevFolder) -> None:
    three.client("topic", "create", "marks", "-p", "1", "-r", "3")
    three.client("produce", "marks", stdin="one\ntwo\n")
    admin = three.status()[0]["admin"]

    def reached_everywhere() -> bool:
        told = three.client("topic", "describe", "marks", "--admin", admin, "--format", "json").stdout
        partition = json.loads(told)["partitions"][0]
        assert partition["term"] >= 1
        marks = [row[mark]["offset"] for row in partition["positions"] for mark in ("dirty", "commit", "visible")]
        return marks == [1] * 9

    eventually("every replica has both records and knows it", reached_everywhere, 20.0)


def test_what_is_produced_is_consumed(three: DevFolder) -> None:
    three.client("topic", "create", "round-trip", "-p", "1")
    for acks in ("0", "1", "all"):
        told = three.client("produce", "round-trip", "--acks", acks, stdin=f"by {acks}\n").stdout
        assert told == "1 record written to round-trip\n"
    assert three.client("consume", "round-trip", "-n", "3").stdout == "by 0\nby 1\nby all\n"
    assert three.client("consume", "round-trip", "-e", "--offset", "-1").stdout == "by all\n"
    assert three.client("consume", "round-trip", "-n", "1", "--offset", "1").stdout == "by 1\n"
    assert three.client("consume", "round-trip", "-e", "--offset", "end").stdout == ""
    refusal = three.client("consume", "round-trip", "--offset", "99", code=1).stderr
    assert "partition 0 of round-trip has offsets 0 to 2; 99 is out of range" in refusal
    three.client("topic", "create", "nothing", "-p", "1")
    assert "partition 0 of nothing is empty" in three.client("consume", "nothing", "--offset", "1", code=1).stderr


def test_keys_partitions_and_json_come_back_as_they_went(three: DevFolder) -> None:
    three.client("topic", "create", "keyed", "-p", "2")
    written = three.client(
        "produce", "keyed", "--partition", "1", "--key-separator", ":", "--output", "json", stdin="k:ä\nl:b:c\n"
    )
    assert [json.loads(line) for line in written.stdout.splitlines()] == [
        {"topic": "keyed", "partition": 1, "offset": 0},
        {"topic": "keyed", "partition": 1, "offset": 1},
    ]
    read = three.client("consume", "keyed", "--partition", "1", "-n", "2", "--format", "json").stdout
    records = [json.loads(line) for line in read.splitlines()]
    assert [(each["offset"], each["key"], each["value"]) for each in records] == [(0, "k", "ä"), (1, "l", "b:c")]
    assert three.client("consume", "keyed", "-n", "2", "-f", r"%p/%o %k=%s\n").stdout == "1/0 k=ä\n1/1 l=b:c\n"
    bad = three.client("produce", "keyed", "--key-separator", ":", stdin="a:1\nnone\n", code=1)
    assert bad.stdout == "1 record written to keyed\n"
    assert "line 2 has no ':' between key and value" in bad.stderr


def test_a_killed_broker_is_missing_until_it_is_restarted(three: DevFolder) -> None:
    three.client("topic", "create", "kill", "-p", "1", "-r", "3")
    three.client("produce", "kill", stdin="before\n")
    three.dev("kill", "2")
    assert [each["alive"] for each in three.status()] == [True, False, True]
    report = json.loads(three.client("cluster", "health", "--format", "json", code=1).stdout)
    assert (report["healthy"], report["brokers_missing"]) == (False, [2])
    three.client("produce", "kill", stdin="while one is dead\n")
    assert "is not running" in raftka("dev", "kill", "2", "--data-dir", str(three.path), code=1).stderr
    three.dev("restart", "2")
    assert all(each["alive"] for each in three.status())
    eventually("the cluster is healthy again", three.is_healthy, 30.0)
    assert three.client("consume", "kill", "-n", "2").stdout == "before\nwhile one is dead\n"
    assert any(line.startswith("2 | ") for line in three.dev("logs", "2").splitlines())


def test_info_names_the_brokers(three: DevFolder) -> None:
    told = json.loads(three.client("cluster", "info", "--format", "json").stdout)
    assert [each["kafka"] for each in told["brokers"]] == three.bootstrap.split(",")
    assert told["controller"] in {1, 2, 3}


def test_two_clusters_live_side_by_side(three: DevFolder, tmp_path: Path) -> None:
    other = start_detached(tmp_path / "other", 1)
    try:
        other.client("topic", "create", "only-here")
        assert "only-here" not in three.client("topic", "list").stdout
        assert not {each["pid"] for each in other.status()} & {each["pid"] for each in three.status()}
    finally:
        other.dev("stop")
    assert [each["alive"] for each in other.status()] == [False]
    assert all(each["alive"] for each in three.status())


def test_a_second_start_resumes_the_cluster_with_its_data(tmp_path: Path) -> None:
    folder = start_detached(tmp_path / "dev", 1)
    try:
        bootstrap = folder.bootstrap
        folder.client("topic", "create", "kept")
        folder.client("produce", "kept", stdin="still here\n")
        again = raftka("dev", "--detach", "--data-dir", str(folder.path), code=1).stderr
        assert "a cluster runs in" in again
        folder.dev("stop")
        assert (
            "has another number of brokers, 1:"
            in raftka("dev", "-n", "3", "--data-dir", str(folder.path), code=1).stderr
        )
        assert f"bootstrap: {bootstrap}\n" in folder.dev("--detach")
        assert folder.client("consume", "kept", "-n", "1").stdout == "still here\n"
    finally:
        folder.dev("stop")


def test_a_taken_port_is_an_error_that_names_the_flag(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        arguments = ["--port", str(port), "--admin-port", "0", "--rpc-port", "0", "--data-dir", str(tmp_path)]
        refusal = raftka("dev", "-n", "1", *arguments, code=1).stderr
    assert refusal.startswith(f"raftka: --port: 127.0.0.1:{port} is taken")
    assert refusal.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_foreground_cluster_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    with started([*RAFTKA, "dev", "-n", "2", *FREE_PORTS, "--ephemeral"], TMPDIR=str(tmp_path)) as process:
        read_until(process, "Ctrl-C stops")
        (folder,) = tmp_path.iterdir()
        brokers = [each["process"] for each in json.loads((folder / "cluster.json").read_text())["brokers"]]
        identities = [ProcessIdentity(each["pid"], each["started"]) for each in brokers]
        assert all(each.is_alive for each in identities)
        process.send_signal(number)
        rest, complaints = process.communicate(timeout=SECONDS)
    assert (process.returncode, complaints) == (0, "")
    assert rest.splitlines()[-1] == "stopped"
    assert not any(each.is_alive for each in identities)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_supervisor_leaves_no_brokers_and_the_next_one_removes_its_folder(tmp_path: Path) -> None:
    with started([*RAFTKA, "dev", "-n", "1", *FREE_PORTS, "--ephemeral"], TMPDIR=str(tmp_path)) as process:
        told = read_until(process, "Ctrl-C stops the cluster")
        (folder,) = tmp_path.iterdir()
        assert f"data:      {folder}\n" in told
        (broker,) = json.loads((folder / "cluster.json").read_text())["brokers"]
        process.kill()
    identity = ProcessIdentity(broker["process"]["pid"], broker["process"]["started"])
    assert identity.wait_gone(20.0)
    raftka("dev", "-n", "1", *FREE_PORTS, "--ephemeral", "--detach", TMPDIR=str(tmp_path))
    (other,) = tmp_path.iterdir()
    assert other != folder
    DevFolder(other).dev("stop")
    assert list(tmp_path.iterdir()) == []


def test_every_broker_can_be_killed_and_restarted_while_the_supervisor_lives(tmp_path: Path) -> None:
    folder = DevFolder(tmp_path)
    with started([*RAFTKA, "dev", "-n", "3", *FREE_PORTS, "--data-dir", str(tmp_path)]) as process:
        read_until(process, "Ctrl-C stops")
        for node in "123":
            assert f"raftka dev restart {node}" in folder.dev("kill", node)
        first = raftka("dev", "restart", "1", "--data-dir", str(tmp_path))
        assert "most brokers are dead (2, 3)" in first.stderr
        assert first.stdout.startswith("broker 1 runs")
        folder.dev("restart", "2")
        folder.dev("restart", "3")
        eventually("the cluster is healthy again", folder.is_healthy, 30.0)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert not any(each["alive"] for each in folder.status())


def test_a_reader_that_has_seen_enough_is_no_error(three: DevFolder) -> None:
    three.client("topic", "create", "pipe", "-p", "1")
    three.client("produce", "pipe", stdin="".join(f"line {number}\n" for number in range(20_000)))
    with started([*RAFTKA, "consume", "pipe", "-e", "--brokers", three.bootstrap]) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "line 0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
