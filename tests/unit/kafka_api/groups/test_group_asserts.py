"""Each assert of the group machine, its members and their memory can fail: a wrong state trips it."""

import asyncio

import pytest

from kafka_api.groups.group import Group, GroupState
from kafka_api.groups.group_events import Join
from kafka_api.groups.held_group import HeldGroup
from kafka_api.groups.member import Member, new_member
from kafka_api.groups.member_memory import MemberMemory
from kafka_api.groups.members import Members
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import Index

_JOIN = Join(
    member_id="",
    new_member_id="m1",
    instance_id=None,
    client_id="c",
    client_host="/h",
    session_timeout_ms=10_000,
    rebalance_timeout_ms=5_000,
    protocol_type="consumer",
    protocols=(("range", b""),),
    must_know_id=False,
    can_skip_assignment=False,
)


def _group(state: GroupState) -> Group:
    """Return a group of one member that waits for its assignment, in the state that is given."""
    group = Group(0.0, 10)
    group.join(0.0, _JOIN, ticket=1)
    group.on_time(1.0)
    assert group.state is GroupState.COMPLETING
    group.state = state
    return group


def _members() -> tuple[Members, Member]:
    members, member = Members(), new_member("m1", _JOIN)
    members.add(member)
    return members, member


# -- the machine ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [state for state in GroupState if state is not GroupState.PREPARING])
def test_a_generation_begins_only_where_all_were_told_to_join(state: GroupState) -> None:
    with pytest.raises(AssertionError):
        _group(state)._complete_join(1.0)


@pytest.mark.parametrize("state", [state for state in GroupState if state is not GroupState.COMPLETING])
def test_an_assignment_is_taken_only_where_one_is_due(state: GroupState) -> None:
    with pytest.raises(AssertionError):
        _group(state)._store_assignment({})


def test_a_generation_has_one_assignment() -> None:
    group = _group(GroupState.COMPLETING)
    group._store_assignment({})
    with pytest.raises(AssertionError):
        group._store_assignment({})


def test_a_dead_group_stores_nothing() -> None:
    group = _group(GroupState.DEAD)
    with pytest.raises(AssertionError):
        group._store({"m1": b""}, lambda now, error: None)


def test_only_a_dead_group_without_members_comes_to_life_again() -> None:
    group = Group(0.0, 10)
    with pytest.raises(AssertionError):
        group.revive()
    with pytest.raises(AssertionError):
        _group(GroupState.DEAD).revive()
    group.kill(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.revive()
    assert group.state is GroupState.EMPTY


def test_a_dead_group_that_keeps_members_is_noticed(monkeypatch) -> None:
    group = _group(GroupState.STABLE)
    monkeypatch.setattr(Members, "remove", lambda members, member: None)
    with pytest.raises(AssertionError):
        group.kill(ErrorCode.NOT_COORDINATOR)


# -- members --------------------------------------------------------------------------------------------------------


def test_nobody_joins_a_generation_who_is_no_member() -> None:
    with pytest.raises(AssertionError):
        Members().await_join(new_member("m1", _JOIN), 1)


def test_a_member_that_was_not_counted_does_not_stop_waiting() -> None:
    members, member = _members()
    member.join_ticket = 1
    with pytest.raises(AssertionError):
        members.take_join_ticket(member)


@pytest.mark.parametrize("field", ["size_bytes", "joined"])
def test_what_is_counted_ends_with_the_last_member(field: str) -> None:
    members, member = _members()
    setattr(members, field, getattr(members, field) + 1)
    with pytest.raises(AssertionError):
        members.remove(member)


def test_a_group_with_members_has_a_leader() -> None:
    members, member = _members()
    members.add(new_member("m2", _JOIN))
    members.leader = None
    with pytest.raises(AssertionError):
        members.remove(member)


# -- memory and writes ----------------------------------------------------------------------------------------------


def test_memory_of_members_is_given_back_once() -> None:
    memory = MemberMemory(100)
    memory.change(10)
    with pytest.raises(AssertionError):
        memory.release(11)
    memory.release(10)
    with pytest.raises(AssertionError):
        memory.change(-1)


class _Writer:
    """A `held_group.Writer` whose writes are committed in the next step of the loop."""

    def write(self, records) -> "asyncio.Future[Index | ErrorCode]":
        written = asyncio.get_running_loop().create_future()
        written.set_result(Index(1))
        return written

    def now_ms(self) -> int:
        return 0

    def settled(self, held: HeldGroup) -> None:
        """Nobody counts."""


def test_a_write_ends_once() -> None:
    reports: list[object] = []

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: reports.append(told["exception"]))
        held = HeldGroup("g", Group(0.0, 10), _Writer())
        assert await held.write([]) is ErrorCode.NONE
        held.write([])
        held.writes = 0
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(test())
    assert list(map(type, reports)) == [AssertionError]
