"""Transactions of every client that has them: what readers see, offsets in transactions, and fenced producers.

They are no tasks of `python -m tests.clients.sent`: they need a cluster of their own.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.clients.all_clients import CLIENTS
from tests.clients.client import Client
from tests.clients.referee import Referee
from tests.clients.transactors import TRANSACTORS, Transactor
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.committed_records import END, read_committed

pytestmark = pytest.mark.process

# How the clients name it: by the error, or by what it means.
_FENCED = r"(?i)fenced|invalid_?producer_?epoch|newer instance|newer epoch"


@pytest.fixture(params=[pytest.param(name, marks=CLIENTS[name].marks) for name in TRANSACTORS], scope="module")
def transacting(
    transactional: BrokerCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Client]:
    with closing(CLIENTS[request.param].make(transactional.bootstrap, tmp_path_factory.mktemp("client"))) as made:
        yield made


@pytest.fixture
def referee(transactional: BrokerCluster) -> Referee:
    return Referee(transactional)


@pytest.fixture
def transactor(transactional: BrokerCluster, transacting: Client) -> Iterator[Callable[[str], Transactor]]:
    """Return a maker of the client's transactional producers."""
    with ExitStack() as stack:

        def make(transactional_id: str) -> Transactor:
            made = TRANSACTORS[transacting.name](transacting, transactional.bootstrap, transactional_id)
            stack.callback(made.close)
            return made

        yield make


def _write(producer: Transactor, topic: str, values: list[str], *, commit: bool) -> None:
    producer.begin()
    producer.send(topic, values)
    producer.end(commit=commit)


def test_a_reader_at_read_committed_sees_committed_transactions_only_and_waits_for_open_ones(
    transacting: Client, referee: Referee, transactor: Callable[[str], Transactor]
) -> None:
    topic = f"{transacting.name}.isolation"
    referee.create_topic(topic)
    producer = transactor(topic)
    first, aborted, last = ([f"{name}-{number}" for number in range(10)] for name in ("first", "aborted", "last"))
    _write(producer, topic, first, commit=True)
    _write(producer, topic, aborted, commit=False)
    producer.begin()
    producer.send(topic, last)
    referee.fill(topic, ["behind"], 1)
    with ExitStack() as stack:
        careful = stack.enter_context(closing(transacting.join(f"{topic}.careful", topic, committed=True)))
        careless = stack.enter_context(closing(transacting.join(f"{topic}.careless", topic)))
        eventually("everything, uncommitted", lambda: careless.look().values[-1:] == ["behind"])
        assert careless.look().values == [*first, *aborted, *last, "behind"]
        eventually("what is committed", lambda: len(careful.look().values) >= len(first))
        assert careful.look().values == first
        producer.end(commit=True)
        eventually("what was open", lambda: careful.look().values[-1:] == ["behind"])
        assert careful.look().values == [*first, *last, "behind"]


def test_outputs_and_offsets_count_together_or_not_at_all(
    transacting: Client, referee: Referee, transactor: Callable[[str], Transactor]
) -> None:
    group = f"{transacting.name}.transform"
    source, target = f"{group}.in", f"{group}.out"
    for topic in (source, target):
        referee.create_topic(topic)
    producer = transactor(group)
    first, aborted, last = ([f"{name}-{number}" for number in range(10)] for name in ("first", "aborted", "last"))
    _write(producer, source, first, commit=True)
    _write(producer, source, aborted, commit=False)
    _write(producer, source, last, commit=True)
    producer.transform(group, source, target, 20, commit=False)
    assert referee.committed(group, source).get(0, -1) < 0
    producer.transform(group, source, target, 20, commit=True)
    _write(producer, source, ["later"], commit=True)
    producer.transform(group, source, target, 1, commit=True)
    referee.fill(target, [END], 1)
    wanted = [value.upper() for value in (*first, *last, "later")]
    assert read_committed(referee.cluster.bootstrap, target, 0) == [*wanted, END]


def test_a_producer_is_fenced_by_the_next_one_of_its_transactional_id(
    transacting: Client, referee: Referee, transactor: Callable[[str], Transactor]
) -> None:
    topic = f"{transacting.name}.fenced"
    referee.create_topic(topic)
    former = transactor(topic)
    former.begin()
    former.send(topic, ["of the former one"])
    following = transactor(topic)
    with pytest.raises(Exception, match=_FENCED):
        former.end(commit=True)
    _write(following, topic, ["of the next one"], commit=True)
    referee.fill(topic, [END], 1)
    assert read_committed(referee.cluster.bootstrap, topic, 0) == ["of the next one", END]
