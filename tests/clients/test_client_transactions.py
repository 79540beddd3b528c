"""Tasks: transactions, as far as a client has them: what readers see, offsets in transactions, fenced producers."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.clients.client import Client
from tests.clients.referee import Referee
from tests.clients.transactors import TRANSACTORS, Transactor
from tests.process.broker_processes import BrokerCluster, eventually

pytestmark = pytest.mark.process

_ASKS = pytest.mark.asks(needs=("transactions",))
# How the clients name it: by the error, or by what it means.
_FENCED = r"(?i)fenced|invalid_?producer_?epoch|newer instance|newer epoch"


@pytest.fixture
def transactor(cluster: BrokerCluster, client: Client, referee: Referee) -> Iterator[Callable[[str], Transactor]]:
    """Return a maker of the client's transactional producers; `referee` has skipped clients that have none."""
    with ExitStack() as stack:

        def make(transactional_id: str) -> Transactor:
            made = TRANSACTORS[client.name](client, cluster.bootstrap, transactional_id)
            stack.callback(made.close)
            return made

        yield make


def _write(producer: Transactor, topic: str, values: list[str], *, commit: bool) -> None:
    producer.begin()
    producer.send(topic, values)
    producer.end(commit=commit)


@_ASKS
def test_a_reader_at_read_committed_sees_committed_transactions_only_and_waits_for_open_ones(
    client: Client, referee: Referee, topic: str, transactor: Callable[[str], Transactor]
) -> None:
    referee.create_topic(topic)
    producer = transactor(topic)
    first, aborted, last = ([f"{name}-{number}" for number in range(10)] for name in ("first", "aborted", "last"))
    _write(producer, topic, first, commit=True)
    _write(producer, topic, aborted, commit=False)
    producer.begin()
    producer.send(topic, last)
    referee.fill(topic, ["behind"], 1)
    with ExitStack() as stack:
        careful = stack.enter_context(closing(client.join(f"{topic}.careful", topic, committed=True)))
        careless = stack.enter_context(closing(client.join(f"{topic}.careless", topic)))
        eventually("everything, uncommitted", lambda: careless.look().values[-1:] == ["behind"])
        assert careless.look().values == [*first, *aborted, *last, "behind"]
        eventually("what is committed", lambda: len(careful.look().values) >= len(first))
        assert careful.look().values == first
        producer.end(commit=True)
        eventually("what was open", lambda: careful.look().values[-1:] == ["behind"])
        assert careful.look().values == [*first, *last, "behind"]


@_ASKS
def test_outputs_and_offsets_count_together_or_not_at_all(
    client: Client, referee: Referee, topic: str, transactor: Callable[[str], Transactor]
) -> None:
    source, target, group = f"{topic}.in", f"{topic}.out", topic
    for each in (source, target):
        referee.create_topic(each)
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
    assert referee.read_committed(target) == [value.upper() for value in (*first, *last, "later")]


@_ASKS
def test_a_producer_is_fenced_by_the_next_one_of_its_transactional_id(
    client: Client, referee: Referee, topic: str, transactor: Callable[[str], Transactor]
) -> None:
    referee.create_topic(topic)
    former = transactor(topic)
    former.begin()
    former.send(topic, ["of the former one"])
    following = transactor(topic)
    with pytest.raises(Exception, match=_FENCED):
        former.end(commit=True)
    _write(following, topic, ["of the next one"], commit=True)
    assert referee.read_committed(topic) == ["of the next one"]
