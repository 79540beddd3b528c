"""Tasks: consumption in a group."""

from contextlib import ExitStack, closing

import pytest

from tests.clients.client import Client, Member
from tests.clients.referee import Referee
from tests.process.broker_processes import eventually

pytestmark = pytest.mark.process

PARTITIONS = 4
EVERYTHING = set(range(PARTITIONS))


def numbered(name: str, count: int = 40) -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


def share(members: list[Member]) -> bool:
    """Whether each of two members owns half of the partitions."""
    first, second = (member.look().owned for member in members)
    return len(first) == len(second) == PARTITIONS // 2 and first | second == EVERYTHING


def have_read(members: list[Member], values: list[str]) -> bool:
    return {value for member in members for value in member.look().values} >= set(values)


def test_members_share_the_partitions_and_take_over_from_one_another(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic, PARTITIONS)
    before, among_two, alone = numbered("before"), numbered("among-two"), numbered("alone")
    referee.fill(topic, before, PARTITIONS)
    with ExitStack() as stack:
        first = client.join(topic, topic)
        leave = stack.enter_context(ExitStack())
        leave.enter_context(closing(first))
        eventually("all partitions at the only member", lambda: first.look().owned == EVERYTHING)
        eventually("what was there before", lambda: have_read([first], before))
        first.commit()

        second = stack.enter_context(closing(client.join(topic, topic)))
        eventually("half of the partitions each", lambda: share([first, second]))
        referee.fill(topic, among_two, PARTITIONS)
        eventually("what came for two", lambda: have_read([first, second], among_two))
        assert second.look().records, "the second member has read nothing"
        first.commit()
        second.commit()

        leave.close()
        eventually("all partitions at the last member", lambda: second.look().owned == EVERYTHING)
        referee.fill(topic, alone, PARTITIONS)
        eventually("what came for one", lambda: have_read([second], alone))


def test_a_group_goes_on_where_it_has_committed(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic, PARTITIONS)
    before, after = numbered("before"), numbered("after")
    referee.fill(topic, before, PARTITIONS)
    with closing(client.join(topic, topic)) as first:
        eventually("what was there before", lambda: have_read([first], before))
        first.commit()
    assert referee.committed(topic, topic) == dict.fromkeys(EVERYTHING, len(before) // PARTITIONS)
    referee.fill(topic, after, PARTITIONS)
    with closing(client.join(topic, topic)) as second:
        eventually("what came afterwards", lambda: have_read([second], after))
        assert sorted(second.look().values, key=str) == sorted(after)
