"""A replica that leaves a node keeps its vote and its log end, through every crash, until it returns or is deleted."""

import asyncio

import msgspec
import pytest

from model.ids import Index, NodeId, Term
from raft.gravestone import Gravestone, gravestone_key, read_gravestone
from raft.replica_directories import marker_key
from raft.rules.election import LogEnd
from raft.vote_floor import encode_floor, floor_key, read_floor
from raft.vote_store import PersistedVote, vote_key
from storage.errors import KvStoreError, MismatchedLogError, ReplicaRemovedError
from tests.unit.raft.test_replica_directories import GROUP, Life, Machine, crashes_after

VOTE = msgspec.msgpack.encode(PersistedVote(7, 3))
END = LogEnd(Term(6), Index(40))


async def take_part(life: Life) -> None:
    """A replica in term 7, with a vote for node 3."""
    await life.take_part()
    life.store.put(vote_key(GROUP), VOTE)
    await life.store.sync()


async def leave(life: Life) -> None:
    if not life.directories.is_leaving(GROUP):
        await life.directories.begin_leaving(GROUP, END)
    await life.directories.finish_leaving(GROUP)
    await life.store.sync()


def has_vote(machine: Machine) -> bool:
    """Whether what is durable says in which term the replica was, and for whom it voted."""
    gravestone = machine.durable.get(gravestone_key(GROUP))
    if gravestone is not None:
        assert msgspec.msgpack.decode(gravestone, type=Gravestone) == Gravestone(Term(7), NodeId(3), Index(40), Term(6))
    return gravestone is not None or machine.durable.get(vote_key(GROUP)) == VOTE


def test_a_replica_that_left_returns_empty_with_its_vote_and_its_log_end_as_floor() -> None:
    async def scenario() -> None:
        machine = Machine()
        life = machine.life()
        await take_part(life)
        await leave(life)
        assert machine.names is None
        assert machine.durable[marker_key(GROUP)] == b"left"
        assert vote_key(GROUP) not in machine.durable
        life = machine.life()
        assert await life.directories.claim(GROUP) == 0
        assert machine.names == ["replica.id"]
        assert machine.durable[vote_key(GROUP)] == VOTE
        assert read_floor(life.store, GROUP) == END
        assert read_gravestone(life.store, GROUP) is None

    asyncio.run(scenario())


def test_no_crash_while_it_leaves_and_returns_forgets_the_vote() -> None:
    async def scenario() -> int:
        effects = 0
        while True:
            machine = Machine(effects)
            await take_part(machine.life())
            was_cut = await crashes_after(machine, effects, leave)
            assert has_vote(machine)
            machine.disk.lose_power()
            assert has_vote(machine)
            if was_cut:
                life = machine.life()
                if life.directories.is_leaving(GROUP):
                    with pytest.raises(ReplicaRemovedError):
                        await life.directories.claim(GROUP)
                if machine.durable[marker_key(GROUP)] != b"left":
                    await leave(life)
            for cut in range(12):
                was_cut_again = await crashes_after(machine, cut, lambda life: life.directories.claim(GROUP))
                assert has_vote(machine)
                if not was_cut_again:
                    break
            assert read_floor(machine.life().store, GROUP) == END
            if not was_cut:
                return effects
            effects += 1

    assert asyncio.run(scenario()) >= 5


def test_a_creation_that_a_crash_cut_short_is_deleted_if_the_replica_is_not_wanted() -> None:
    async def scenario() -> None:
        machine = Machine()
        life = machine.life()
        await take_part(life)
        await leave(life)
        is_half_made = False
        for effects in range(1, 20):
            if not await crashes_after(machine, effects, lambda life: life.directories.claim(GROUP)):
                break
            life = machine.life()
            if machine.names is not None and not life.directories.has_replica(GROUP):
                is_half_made = True
                await life.directories.discard_unused(GROUP)
                assert machine.names is None
                assert machine.durable[marker_key(GROUP)] == b"left"
                # Again: nothing is there.
                await life.directories.discard_unused(GROUP)
        assert is_half_made

    asyncio.run(scenario())


def test_a_floor_that_was_not_reached_again_is_kept() -> None:
    async def scenario() -> None:
        machine = Machine()
        life = machine.life()
        await take_part(life)
        life.store.put(floor_key(GROUP), encode_floor(LogEnd(Term(6), Index(90))))
        await leave(life)
        assert await machine.life().directories.claim(GROUP) == 0
        assert read_floor(machine.life().store, GROUP) == LogEnd(Term(6), Index(90))

    asyncio.run(scenario())


def test_the_deletion_of_the_group_ends_a_gravestone() -> None:
    async def scenario() -> None:
        machine = Machine()
        life = machine.life()
        await take_part(life)
        await leave(life)
        assert await life.directories.has_any_of(GROUP)
        await life.directories.begin_removal(GROUP)
        await life.directories.finish_removal(GROUP)
        await life.store.sync()
        assert machine.durable == {}

    asyncio.run(scenario())


def test_a_replica_that_left_without_a_gravestone_is_not_made() -> None:
    async def scenario() -> None:
        machine = Machine()
        life = machine.life()
        await take_part(life)
        await leave(life)
        del machine.durable[gravestone_key(GROUP)]
        with pytest.raises(MismatchedLogError, match="lacks its vote"):
            await machine.life().directories.claim(GROUP)
        assert machine.names is None

    asyncio.run(scenario())


def test_a_damaged_gravestone_is_refused_by_name() -> None:
    async def scenario() -> None:
        machine = Machine()
        life = machine.life()
        await take_part(life)
        await leave(life)
        machine.durable[gravestone_key(GROUP)] = b"\x93\x01"
        with pytest.raises(KvStoreError, match=r"raft/topic/7/former is damaged"):
            await machine.life().directories.claim(GROUP)

    asyncio.run(scenario())
