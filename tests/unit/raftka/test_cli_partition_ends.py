"""Where reading ends in a partition."""

from collections.abc import Iterable

import pytest

from raftka.cli.partition_ends import PartitionEnds
from raftka.kafka import offsets as kafka_offsets
from raftka.kafka.groups import Partition


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> PartitionEnds:
    """Partitions 0 and 1 end at 3, and one record later each time somebody asks; the end of 2 is not known."""
    answers = iter(range(3, 10))

    def known_ends(_: str, partitions: Iterable[Partition]) -> dict[Partition, int]:
        end = next(answers)
        return {each: end for each in partitions if each[1] != 2}

    monkeypatch.setattr(kafka_offsets, "known_ends", known_ends)
    return PartitionEnds("nowhere:1", "t")


def test_a_partition_is_read_up_to_its_end_and_no_record_behind_it_is_taken(ends: PartitionEnds) -> None:
    ends.ask([0, 1])
    ends.unfinished = {0, 1}
    assert [ends.admits(0, offset) for offset in (0, 1)] == [True, True]
    assert ends.unfinished == {0, 1}
    assert ends.admits(0, 2)
    assert ends.unfinished == {1}
    # Where the last offsets before the end are gaps, the next record tells that it is reached.
    assert not ends.admits(1, 7)
    assert ends.unfinished == set()


def test_an_end_stays_where_it_was_when_the_partition_was_given_first(ends: PartitionEnds) -> None:
    assert ends.ask([0]) == {0: 3}
    assert ends.ask([0, 1]) == {0: 3, 1: 4}


def test_a_partition_whose_end_nobody_tells_ends_where_it_has_no_more(ends: PartitionEnds) -> None:
    ends.ask([2])
    ends.unfinished = {2}
    assert ends.admits(2, 100)
    assert ends.unfinished == {2}
    ends.on_nothing_left(2)
    assert ends.unfinished == set()


def test_a_broker_that_is_not_there_tells_no_ends() -> None:
    assert kafka_offsets.known_ends("127.0.0.1:1", [("t", 0)]) == {}
