"""A group counts its members that have joined; the count is always that of those who wait."""

import sys
from dataclasses import replace
from random import Random

import pytest

from kafka_api.groups.group import Group
from kafka_api.groups.group_events import Identity, Join, Store, Sync
from kafka_api.groups.member import new_member
from kafka_api.protocol.error_codes import ErrorCode


def join(rng, number):
    static = rng.choice((None, None, "one", "two"))
    return Join(
        member_id=rng.choice(("", "", f"m{rng.randrange(number + 1)}")),
        new_member_id=f"m{number}" + rng.choice(("", "群" * 30)),
        instance_id=static,
        client_id=rng.choice(("c", "ü" * 40)),
        client_host="/h",
        session_timeout_ms=rng.choice((1_000, 10_000)),
        rebalance_timeout_ms=5_000,
        protocol_type="consumer",
        protocols=(("range", rng.randbytes(rng.randrange(3))),),
        must_know_id=rng.random() < 0.3,
        can_skip_assignment=rng.random() < 0.5,
    )


@pytest.mark.parametrize("letter", ["x", "ü", "群", "🐘"])
def test_a_member_is_counted_as_no_less_than_its_names_take(letter):
    name = letter * 249 + "x"
    request = replace(join(Random(1), 1), instance_id=name, client_id=name, protocols=((name, b""),))
    member = new_member(f"{name}-1", request)
    texts = (member.member_id, member.instance_id, member.client_id, *member.names)
    assert member.size_bytes >= sum(sys.getsizeof(text) for text in texts)


@pytest.mark.parametrize("seed", range(30))
def test_the_count_of_joined_members_is_that_of_those_who_wait(seed):
    rng = Random(seed)
    group = Group(rng.choice((0.0, 1.0)), rng.choice((3, 1_000)))
    now = 0.0
    for number in range(200):
        now += rng.choice((0.0, 0.1, 0.1, 2.0))
        member = next(iter(group.members), None)
        name = "nobody" if member is None else rng.choice([each.member_id for each in group.members])
        match rng.randrange(6):
            case 0 | 1 | 2:
                group.join(now, join(rng, number), number)
            case 3:
                leader = group.members.leader or name
                group.sync(now, Sync(leader, group.generation, None, None, None, {}), number)
            case 4:
                group.leave(now, Identity(name, None))
            case _:
                group.on_time(now)
        for effect in group.take_effects():
            if isinstance(effect, Store):
                group.stored(now, effect.number, rng.choice((ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)))
        assert group.members.joined == sum(each.is_awaiting_join for each in group.members)
        assert group.members.size_bytes == sum(each.size_bytes for each in group.members)
    group.kill(ErrorCode.NOT_COORDINATOR)
    assert (group.members.joined, group.members.size_bytes) == (0, 0)
