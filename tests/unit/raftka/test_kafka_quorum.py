"""When too few brokers answer for a quorum, and what commands say then."""

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from raftka.cli.exit_codes import UNAVAILABLE
from raftka.cli.root import run
from raftka.kafka import client as kafka_client
from raftka.kafka import quorum
from raftka.kafka.errors import HangingError, NoQuorumError, NotServingError, UnansweredError
from tests.unit.raftka.foreign_brokers import LonelyBroker, free_address

# What issue after issue asks for: so long a command may take to say that there is no quorum.
SECONDS_MAX = 5.0

Cluster = Callable[..., list[str]]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Return what starts brokers by a letter each: `a` answers, `p` is paused, `d` is dead; returns their addresses."""
    started: list[LonelyBroker] = []

    def start(states: str, controller: int = -1) -> list[str]:
        addresses: dict[int, str] = {}
        ours: list[LonelyBroker] = []
        for node, state in enumerate(states, start=1):
            if state == "d":
                addresses[node] = free_address()
                continue
            ours.append(LonelyBroker(is_paused=state == "p"))
            addresses[node] = ours[-1].address
        started.extend(ours)
        for each in ours:
            each.brokers, each.controller = addresses, controller
        return list(addresses.values())

    yield start
    for each in started:
        each.close()


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ("add", "no quorum: brokers 2, 3 of 3 do not answer; start them"),
        ("pad", "no quorum: brokers 1, 3 of 3 do not answer; start them"),
        ("dad", "no quorum: brokers 1, 3 of 3 do not answer; start them"),
        ("da", "no quorum: broker 1 of 2 does not answer; start it"),
        ("aadd", "no quorum: brokers 3, 4 of 4 do not answer; start them"),
        ("ddaad", "no quorum: brokers 1, 2, 5 of 5 do not answer; start them"),
    ],
)
def test_the_brokers_without_which_there_is_no_quorum_are_named(cluster: Cluster, states: str, words: str) -> None:
    addresses = cluster(states)
    assert str(quorum.lost_quorum(addresses)) == words
    # One that answers tells of all the others.
    assert str(quorum.lost_quorum([addresses[states.index("a")]])) == words


@pytest.mark.parametrize("states", ["aad", "aaa", "a", "aaadd", "aaad"])
def test_a_majority_that_answers_is_a_quorum_that_may_be_electing(cluster: Cluster, states: str) -> None:
    assert quorum.lost_quorum(cluster(states)) is None


def test_a_broker_that_knows_a_controller_is_in_a_quorum_from_which_this_client_is_cut_off(cluster: Cluster) -> None:
    assert quorum.lost_quorum(cluster("add", controller=2)) is None


@pytest.mark.parametrize("states", ["p", "pp", "pd"])
def test_addresses_that_take_connections_and_answer_nothing_are_told_from_others(cluster: Cluster, states: str) -> None:
    addresses = cluster(states)
    hanging = [address for address, state in zip(addresses, states, strict=True) if state == "p"]
    found = quorum.no_service(addresses)
    assert isinstance(found, HangingError)
    assert found.what.startswith(f"{', '.join(hanging)} take")
    assert str(found).endswith(
        "takes connections and answers nothing: the broker hangs or is stopped (--brokers names others)"
        if len(hanging) == 1
        else "take connections and answer nothing: the brokers hang or are stopped (--brokers names others)"
    )
    # Whoever runs may know other brokers.
    assert quorum.lost_quorum(addresses) is None


@pytest.mark.parametrize("states", ["ddd", "pa", "paa", "pda"])
def test_a_broker_that_answers_or_nobody_at_all_is_not_said_to_hang(cluster: Cluster, states: str) -> None:
    assert not isinstance(quorum.no_service(cluster(states)), HangingError)


def test_a_listener_that_ends_connections_is_not_said_to_hang(cluster: Cluster) -> None:
    [paused] = cluster("p")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ending = threading.Thread(target=lambda: listener.accept()[0].close())
        ending.start()
        assert quorum.no_service([paused, f"127.0.0.1:{listener.getsockname()[1]}"]) is None
        ending.join()


def test_a_broker_that_was_busy_for_a_second_is_not_said_to_hang(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    [address] = cluster("a")
    ask, asked = quorum._ask, []

    def late_at_first(address: str) -> object:
        asked.append(address)
        return quorum._Silence.HANGS if len(asked) == 1 else ask(address)

    monkeypatch.setattr(quorum, "_ask", late_at_first)
    assert quorum.no_service([address]) is None
    assert len(asked) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        *(["topic", "list"], ["group", "list"], ["cluster", "info"], ["consume", "t"], ["consume", "t", "-g", "g"]),
        *(["produce", "t"], ["bench", "-t", "t"], ["partition", "list"], ["cluster", "log-level"]),
    ],
)
def test_commands_say_of_a_broker_that_hangs_that_it_hangs(
    cluster: Cluster, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_client, "QUORUM_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(quorum, "ASK_SECONDS", 0.2)
    # The others of a healthy majority cannot be known.
    [address] = cluster("p")
    assert run([*arguments, "--brokers", address]) == 1
    words = f"raftka: {address} takes connections and answers nothing: the broker hangs or is stopped"
    assert capsys.readouterr().err == f"{words} (--brokers names others)\n"


def test_the_doctor_names_the_cure_of_a_broker_that_hangs(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "cluster", "--brokers", *cluster("p")]) == 1
    told = capsys.readouterr().out
    assert "takes connections and answers nothing: it hangs or is stopped\n" in told
    assert "`kill -CONT PID` wakes it; else restart it" in told


def test_a_change_that_a_hanging_broker_may_have_got_is_one_without_an_answer() -> None:
    error = HangingError(["a:1"])
    assert isinstance(error, UnansweredError)
    assert isinstance(error, NotServingError)


@pytest.mark.parametrize("states", ["ddd", "pp"])
def test_nothing_is_known_of_a_cluster_in_which_nobody_answers(cluster: Cluster, states: str) -> None:
    assert quorum.lost_quorum(cluster(states)) is None


def test_a_broker_that_names_addresses_where_nobody_is_does_not_name_dead_brokers(cluster: Cluster) -> None:
    broker = LonelyBroker()
    try:
        broker.brokers = {1: free_address(), 2: free_address(), 3: free_address()}
        assert quorum.lost_quorum([broker.address]) is None
    finally:
        broker.close()


def test_a_verdict_comes_in_time() -> None:
    # Two rounds of questions, after the first look.
    assert kafka_client.QUORUM_LOOK_SECONDS + 2 * quorum.ASK_SECONDS < SECONDS_MAX


@pytest.mark.parametrize(
    "arguments",
    [
        *(["topic", "list"], ["topic", "create", "t"], ["group", "list"], ["cluster", "info"], ["consume", "t"]),
        *(["bench", "-t", "t"], ["partition", "transfer-leadership", "t", "0"], ["cluster", "log-level"]),
        ["audit", "--topic", "t"],
    ],
)
def test_commands_say_it_in_the_same_words(
    cluster: Cluster, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = ",".join(reversed(cluster("add")))
    assert run([*arguments, "--brokers", brokers]) == UNAVAILABLE
    assert capsys.readouterr().err == "raftka: no quorum: brokers 2, 3 of 3 do not answer; start them\n"


def test_the_doctor_goes_on_and_names_the_cure(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "cluster", "--brokers", ",".join(cluster("add"))]) == 1
    told = capsys.readouterr().out
    assert "problem  brokers: no quorum: brokers 2, 3 of 3 do not answer\n" in told
    assert "cure: start them (`raftka dev restart N`" in told


def test_a_request_that_nobody_will_answer_is_not_waited_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "QUORUM_LOOK_SECONDS", 0.01)
    with pytest.raises(NoQuorumError):
        kafka_client.result_of(Future(), ",".join(cluster("add")), 600.0)


def test_a_request_that_is_late_while_there_is_a_quorum_is_waited_for(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_client, "QUORUM_LOOK_SECONDS", 0.01)
    brokers = ",".join(cluster("aad"))
    with pytest.raises(UnansweredError), kafka_client.one_line_errors(brokers):
        kafka_client.result_of(Future(), brokers, 0.05)
    done: Future[int] = Future()
    done.set_result(7)
    assert kafka_client.result_of(done, brokers, 0.0) == 7


@pytest.mark.parametrize("name", ["_TIMED_OUT", "REQUEST_TIMED_OUT", "NOT_CONTROLLER", "COORDINATOR_NOT_AVAILABLE"])
def test_an_error_that_a_lost_quorum_explains_is_told_as_that(cluster: Cluster, name: str) -> None:
    with pytest.raises(NoQuorumError), kafka_client.one_line_errors(",".join(cluster("add"))):
        raise KafkaException(KafkaError(getattr(KafkaError, name)))
