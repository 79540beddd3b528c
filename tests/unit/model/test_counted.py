import pytest

from model import counted as broker_counted
from raftka import counted as client_counted


@pytest.mark.parametrize(("count", "words"), [(0, "0 replicas"), (1, "1 replica"), (2, "2 replicas")])
def test_only_one_of_something_has_no_plural(count: int, words: str) -> None:
    assert broker_counted.counted(count, "replica") == words
    assert client_counted.counted(count, "replica") == words


def test_one_broker_and_several_are_named_alike_by_brokers_and_by_clients() -> None:
    for named in (broker_counted.brokers, client_counted.brokers):
        assert [named([3]), named((3, 4)), named([7, 2, 9])] == ["broker 3", "brokers 3,4", "brokers 7,2,9"]
