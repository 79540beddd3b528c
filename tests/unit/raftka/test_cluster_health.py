"""What `raftka cluster health` makes of brokers that answer, that only take connections, and that are away."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from raftka.cli import admin_picture, admin_verbs, cluster
from raftka.cli.admin_picture import KnownBroker
from raftka.cli.root import run
from raftka.health.broker_rules import check_hanging
from raftka.health.move_rules import NO_FORCE, check_quorums
from raftka.health.picture import BrokerPicture, MemberPicture, PartitionPicture, Picture
from raftka.kafka import client as kafka_client
from raftka.kafka import reassigned
from raftka.kafka.client import ClusterInfo, PartitionInfo
from raftka.kafka.wire.reassignment_requests import Reassignment

NOBODY = "127.0.0.1:1"
# Of a time-out that a test waits out.
SECONDS = 0.2
# Of one that ends only a test that fails.
LONG_SECONDS = 30.0


def _address(listener: socket.socket) -> str:
    return f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def frozen() -> Iterator[str]:
    """The Kafka port of a process that is stopped: its kernel takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield _address(listener)


@pytest.fixture
def alive() -> Iterator[str]:
    """A Kafka port that answers the first request of each connection."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def serve() -> None:
            # Ends with the connection without a request that the test makes last.
            while True:
                connection, _ = listener.accept()
                with connection:
                    request = connection.recv(1024)
                    if not request:
                        return
                    # A size, and the request's correlation.
                    connection.sendall(struct.pack(">i", 4) + request[8:12])

        server = threading.Thread(target=serve)
        server.start()
        yield _address(listener)
        socket.create_connection(listener.getsockname()).close()
        server.join()


@pytest.fixture
def closing() -> Iterator[str]:
    """The Kafka port of a broker that starts: it ends each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=lambda: listener.accept()[0].close())
        server.start()
        yield _address(listener)
        server.join()


def _info(*addresses: str) -> ClusterInfo:
    brokers = dict(enumerate(addresses, 1))
    return ClusterInfo("c", 1, brokers, {"t": [PartitionInfo(0, 1, sorted(brokers), sorted(brokers))]})


def test_a_frozen_broker_is_missing_and_has_the_words_and_the_cure_of_the_doctor(alive: str, frozen: str) -> None:
    report = cluster.examine(_info(alive, frozen), [alive], SECONDS)
    assert (report["healthy"], report["brokers"], report["brokers_missing"]) == (False, [1, 2], [2])
    (finding,) = check_hanging(Picture(brokers=(BrokerPicture(2, kafka=frozen, answers=False, hangs=True),)))
    (told,) = report["hanging"]
    assert (told["what"], told["words"], told["cure"]) == (finding.what, finding.words, finding.cure)
    assert "`kill -CONT PID` wakes it" in told["cure"]


def test_a_frozen_address_that_no_broker_is_known_by_is_told_as_well(alive: str, frozen: str) -> None:
    report = cluster.examine(_info(alive), [alive, frozen], SECONDS)
    assert (report["healthy"], report["brokers_missing"], report["bootstrap_unreachable"]) == (False, [], [])
    assert [each["words"].split()[0] for each in report["hanging"]] == [frozen]


def test_an_address_where_nobody_listens_or_a_broker_starts_is_no_broker_that_hangs(alive: str, closing: str) -> None:
    report = cluster.examine(_info(alive), [alive, NOBODY, closing], LONG_SECONDS)
    assert (report["healthy"], report["hanging"]) == (False, [])
    assert report["bootstrap_unreachable"] == [NOBODY, closing]


def test_brokers_that_answer_are_healthy(alive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: _info(alive))
    monkeypatch.setattr(reassigned, "read_moves", lambda *_: {})
    monkeypatch.setattr(cluster, "_without_quorum", None)
    assert run(["cluster", "health", "--brokers", alive, "--timeout", str(LONG_SECONDS)]) == 0


def test_a_group_that_moves_and_can_decide_nothing_is_named_though_metadata_finds_nothing_wrong(
    alive: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = {"topic": "t", "partition": 0, "lost_voter_sets": [[3]], "away": [3], "retired": []}
    moves = [
        lost,
        {**lost, "partition": 1, "away": [], "retired": [3]},
        {**lost, "partition": 2, "lost_voter_sets": []},
    ]
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: _info(alive))
    moving = {("t", 0): Reassignment("t", 0, [1, 3], [3], [1])}
    monkeypatch.setattr(reassigned, "read_moves", lambda *_: moving)
    stuck = [{"topic": "s", "partition": 4, "replicas": [1, 2, 3], "retired": [2, 3]}]
    monkeypatch.setattr(admin_verbs, "ask_verb", lambda *_, **__: {"moves": moves, "cannot_move": stuck})
    asked = ["cluster", "health", "--brokers", alive, "--timeout", str(LONG_SECONDS)]
    assert run(asked) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "NOT HEALTHY"
    named = "is being moved, and no majority of the voters 3 answers"
    retired = f"the data directory that broker 3 voted with is retired; {NO_FORCE}"
    assert said[-3:-1] == [f"no quorum: t-0 {named}: start broker 3", f"no quorum: t-1 {named}: {retired}"]
    # The words are the doctor's.
    picture = PartitionPicture("s", 4, None, (1, 2, 3), retired=(2, 3))
    (finding,) = check_quorums(Picture(partitions=(picture,)))
    voters, cause = "no majority of the voters 1,2,3 answers", finding.cause
    assert said[-1] == f"no quorum: s-4: {voters}: {cause}; {NO_FORCE}"
    assert finding.words.startswith(voters)
    assert finding.cure.startswith(NO_FORCE)
    assert run([*asked, "-f", "json"]) == 1
    told = json.loads(capsys.readouterr().out)["without_quorum"]
    assert [(each["topic"], each["is_moving"]) for each in told] == [("t", True), ("t", True), ("s", False)]
    assert (told[2]["lost_voter_sets"], told[2]["retired"], told[2]["away"]) == ([[1, 2, 3]], [2, 3], [])
    moves.clear()
    assert run(asked) == 1
    stuck.clear()
    assert run(asked) == 0


def test_a_broker_whose_directory_is_retired_is_to_be_replaced_and_not_missing(
    alive: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    partition = PartitionInfo(0, 1, [1, 2, 3], [1])
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: ClusterInfo("c", 1, {1: alive}, {"t": [partition]}))
    monkeypatch.setattr(
        kafka_client, "read_broker_config", lambda *_: {"admin.advertised.listener": "http://127.0.0.1:8"}
    )
    known = [KnownBroker(2, member=MemberPicture("active", is_retired=True)), KnownBroker(3, member=None)]
    monkeypatch.setattr(cluster, "_without_quorum", lambda *_: [])
    monkeypatch.setattr(admin_picture, "read_known_brokers", lambda admin: known if admin == "127.0.0.1:8" else [])
    asked = ["cluster", "health", "--brokers", alive, "--timeout", str(LONG_SECONDS)]
    assert run([*asked, "-f", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["brokers_missing"], report["brokers_retired"]) == ([3], [2])
    assert run(asked) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[2] == "missing brokers: 3"
    assert "to be replaced: its data directory is retired: start broker 2 with an empty data.dir" in said


def test_what_hangs_is_printed_with_its_cure(
    alive: str, frozen: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: _info(alive, frozen))
    monkeypatch.setattr(cluster, "_without_quorum", lambda *_: [])
    monkeypatch.setattr(kafka_client, "read_broker_config", lambda *_: {})
    asked = ["cluster", "health", "--brokers", alive, "--timeout", str(SECONDS)]
    assert run([*asked, "-f", "json"]) == 1
    (told,) = json.loads(capsys.readouterr().out)["hanging"]
    assert run(asked) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == ["NOT HEALTHY", "brokers: 1, 2", "missing brokers: 2"]
    assert said[-2:] == [f"broker 2: {told['words']}", f"  cure: {told['cure']}"]


def _healthy(monkeypatch: pytest.MonkeyPatch, alive: str, partition: PartitionInfo, *moves: Reassignment) -> int:
    brokers = dict.fromkeys((1, 2, 3, 4), alive)
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: ClusterInfo("c", 1, brokers, {"t": [partition]}))
    monkeypatch.setattr(reassigned, "read_moves", lambda *_: {(each.topic, each.partition): each for each in moves})
    return run(["cluster", "health", "--brokers", alive, "--timeout", str(LONG_SECONDS)])


@pytest.mark.parametrize(
    ("in_sync", "move", "code"),
    [
        ([1, 2, 3], Reassignment("t", 0, [1, 2, 3, 4], [4], [3]), 0),
        ([1, 2], Reassignment("t", 0, [1, 2, 3, 4], [4], [3]), 1),
        ([1, 2, 4], Reassignment("t", 0, [1, 2, 3, 4], [4], [3]), 0),
        ([4], Reassignment("t", 0, [1, 2, 3, 4], [4], [1, 2, 3]), 0),
        # It was taken back, and 4 leaves again.
        ([1, 2, 3], Reassignment("t", 0, [1, 2, 3, 4], [], [4]), 0),
        ([1, 2], Reassignment("t", 0, [1, 2, 3, 4], [], [4]), 1),
    ],
)
def test_a_replica_that_only_comes_is_not_missed_and_one_that_was_there_is(
    alive: str, monkeypatch: pytest.MonkeyPatch, in_sync: list[int], move: Reassignment, code: int
) -> None:
    monkeypatch.setattr(admin_verbs, "ask_verb", lambda *_, **__: {"moves": []})
    assert _healthy(monkeypatch, alive, PartitionInfo(0, 1, [1, 2, 3, 4], in_sync), move) == code


def test_a_replica_of_a_target_that_was_given_up_is_not_missed(alive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"topic": "t", "partition": 0, "origin": [1], "lost_voter_sets": []}
    monkeypatch.setattr(admin_verbs, "ask_verb", lambda *_, **__: {"moves": [row]})
    partition, move = PartitionInfo(0, 1, [1, 3, 2], [1]), Reassignment("t", 0, [1, 3, 2], [3], [1, 2])
    assert _healthy(monkeypatch, alive, partition, move) == 0


def test_a_move_that_ends_while_the_cluster_is_looked_at_leaves_it_healthy(
    alive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = PartitionInfo(0, 1, [1, 2], [1]), PartitionInfo(0, 2, [2], [2])
    told = [before, after]
    monkeypatch.setattr(
        kafka_client, "read_cluster", lambda _: ClusterInfo("c", 1, {1: alive, 2: alive}, {"t": [told.pop(0)]})
    )
    monkeypatch.setattr(reassigned, "read_moves", lambda *_: {})
    assert run(["cluster", "health", "--brokers", alive, "--timeout", str(LONG_SECONDS)]) == 0
