"""Every error that a key of the group protocol is answered with, and the request that brings it.

`WORLDS` is the table: how a broker has to stand, and for each key and error in it what a client asks. Keys and errors
of all worlds together are those of `kafka_api.groups.answered_errors`.
"""

import ast
import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.transactions.admission import AddToTransactionReply, Admission
from kafka_api.coordinators import coordinator_errors
from kafka_api.error_mapping import error_code
from kafka_api.groups import answered_errors
from kafka_api.groups.answered_errors import ANSWERED_ERRORS
from kafka_api.groups.options import GroupOptions
from kafka_api.handlers import registry
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions import coordinator as transactions
from kafka_api.transactions.admission_codes import admission_code
from raft import errors as raft_errors
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import FAST, run, until
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups
from tests.unit.kafka_api.wire_client import broker_in, stuck_disk

_SECONDS = 60
# The disk hangs for as long as a test asks, and on such a node nobody stands after this time.
_PATIENT = replace(FAST, stall_timeout=10 * _SECONDS)


class Stage:
    """One broker with topic "t" as the cases of a world find it."""

    def __init__(self, broker):
        self.broker = broker
        # What the coordinator of transactions says.
        self.says = Admission.YES
        # Of `transaction.version`.
        self.level = 2

    async def groups(self, name):
        """Return a new connection's view of a group."""
        return Groups(await self.broker.client(), name)

    def replica(self, name):
        """The replica that keeps a group."""
        return consensus_of(self.broker.partition(OFFSETS_TOPIC, offsets_partition(name, 8)))

    async def moving(self, groups):
        """Return a member, and its generation, of a group that somebody else has begun to join."""
        me, generation = await groups.member()
        other = await self.groups(groups.group)
        other.client.send(ApiKey.JOIN_GROUP, 3, other.join_request())
        await groups.until_moving(me, generation)
        return me, generation

    async def fenced(self, groups):
        """Return a static member, and its generation, whose place somebody else has taken."""
        me, generation = await groups.member(instance="one")
        assert (await groups.join(instance="one")).error_code == 0
        return me, generation


# -- worlds: how the broker stands ------------------------------------------------------------------------------------


@asynccontextmanager
async def at_peace(directory, options=QUICK):
    async with broker_in(directory, groups=options, raft=_PATIENT) as broker:
        client = await broker.client()
        await client.create_topic("t")
        await Groups(client).wait_found()
        # Each case has a group of its own, and its partition is led by now.
        await until(lambda: all(broker.cluster.find_leader(OFFSETS_TOPIC, number) for number in range(8)))
        for number in range(8):
            name = next(name for name in map(str, count()) if offsets_partition(name, 8) == number)
            await Groups(client, name).wait_found()
        yield Stage(broker)


def at_peace_with(**options):
    return lambda directory: at_peace(directory, GroupOptions(initial_rebalance_delay_ms=0, **options))


@asynccontextmanager
async def before_the_topic(directory):
    async with broker_in(directory, groups=replace(QUICK, first_leader_wait_ms=0)) as broker:
        await (await broker.client()).create_topic("t")
        yield Stage(broker)


@asynccontextmanager
async def while_a_group_is_deleted(directory):
    """The disk hangs, and so does the deletion of every case's group."""
    async with at_peace(directory, GroupOptions(initial_rebalance_delay_ms=0, write_timeout_ms=600_000)) as stage:
        for case in WORLDS["while its group is deleted"][1]:
            assert await (await stage.groups(_name(case))).commit(1) == 0
        async with stuck_disk(stage.broker):
            for case in WORLDS["while its group is deleted"][1]:
                groups = await stage.groups(_name(case))
                groups.client.send(ApiKey.DELETE_GROUPS, 2, groups.delete_request())
                watching = await stage.groups(_name(case))
                async with asyncio.timeout(_SECONDS):
                    while (await watching.describe()).error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                        await asyncio.sleep(0.01)
            yield stage


@asynccontextmanager
async def while_the_disk_hangs(directory):
    async with at_peace(directory, GroupOptions(initial_rebalance_delay_ms=0, write_timeout_ms=200)) as stage:
        for case in WORLDS["while the disk hangs"][1]:
            await _until_committed(await stage.groups(_name(case)))
        async with stuck_disk(stage.broker):
            yield stage


@asynccontextmanager
async def while_commits_are_not_applied(directory):
    """As while a snapshot is written: what is committed meanwhile has changed no table yet."""
    async with at_peace(directory, GroupOptions(initial_rebalance_delay_ms=0, write_timeout_ms=200)) as stage:
        for case in WORLDS["while commits are not applied"][1]:
            await _until_committed(await stage.groups(_name(case)))
        async with AsyncExitStack() as held:
            for replica in {stage.replica(_name(case)) for case in WORLDS["while commits are not applied"][1]}:
                await held.enter_async_context(replica._log_state._stepped.unchanged())
            for case in WORLDS["while commits are not applied"][1]:
                await _until_committed(await stage.groups(_name(case)))
            yield stage


async def _until_committed(groups):
    # On a loaded machine a write may take longer than these worlds allow.
    async with asyncio.timeout(_SECONDS):
        while await groups.commit(1):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def before_office(directory):
    """Elected again, and nothing of the new term is on the disk yet."""
    async with at_peace(directory) as stage, stuck_disk(stage.broker):
        for replica in {stage.replica(_name(case)) for case in WORLDS["elected and not in office"][1]}:
            replica.step_down("the test says so")
            await until(lambda state=replica.state: state.is_leader, seconds=_SECONDS)
            assert not replica.is_in_office
        yield stage


# -- cases of more than one line --------------------------------------------------------------------------------------


async def joined_twice_at_once(stage, groups):
    """The former of two joins of one member is answered."""
    me, generation = await groups.member()
    other = await stage.groups(groups.group)
    told = await other.call(ApiKey.JOIN_GROUP, 9, other.join_request())
    other.client.send(ApiKey.JOIN_GROUP, 9, other.join_request(told.member_id))
    await groups.until_moving(me, generation)
    again = await stage.groups(groups.group)
    again.client.send(ApiKey.JOIN_GROUP, 9, again.join_request(told.member_id))
    return (await other.client.receive())[1]


async def commit_before_the_assignment(_stage, groups):
    joined = await groups.join()
    return await groups.commit(1, member_id=joined.member_id, generation=joined.generation_id)


async def one_more_than_there_may_be(_stage, groups):
    await groups.member()
    return await groups.join()


async def a_new_life_that_says_too_much(_stage, groups):
    await groups.member(instance="one")
    return await groups.join(instance="one", protocols={"range": bytes(3000)})


async def too_large_an_assignment(_stage, groups):
    joined = await groups.join()
    return await groups.sync(joined.member_id, joined.generation_id, {joined.member_id: bytes(3000)})


async def assignment_to_a_disk_that_hangs(_stage, groups):
    joined = await groups.join()
    return await groups.sync(joined.member_id, joined.generation_id, {joined.member_id: b"part"})


async def deposed_while_asked(stage, groups):
    """The term ends between the question and the answer."""
    replica = stage.replica(groups.group)
    stepped = replica._log_state._stepped
    async with stepped.unchanged():
        assert await groups.commit(1) == 0
        groups.client.send(ApiKey.LIST_GROUPS, 5, groups.list_request())
        await until(lambda: stepped.state._waiters, seconds=_SECONDS)
        replica.step_down("the test says so")
        await until(lambda: replica.is_in_office, seconds=_SECONDS)
    return (await groups.client.receive())[1]


def answer_questions(stage):
    """Let a coordinator of transactions say of each partition what the stage says."""

    async def answer(request):
        return AddToTransactionReply([stage.says] * len(request.partitions))

    node = stage.broker.node
    # In the place of this broker's coordinator.
    node.admissions._find, node.admissions._answer = lambda transactional_id: node.options.node_id, answer


async def _find_without_transactions(stage, groups):
    stage.level = 0
    code = await groups.find(key_type=1)
    stage.level = 2
    return code


def refused_as(says, version):
    """Ask for a transaction that its coordinator does not admit."""

    async def case(stage, groups):
        stage.says = says
        code = await groups.txn_commit(1, version=version)
        stage.says = Admission.YES
        return code

    return case


def as_member(call):
    """Ask as the only member of the group."""

    async def case(_stage, groups):
        return await call(groups, *(await groups.member()))

    return case


def as_member_of_a_moving_group(call):
    async def case(stage, groups):
        return await call(groups, *(await stage.moving(groups)))

    return case


def as_fenced(call):
    async def case(stage, groups):
        return await call(groups, *(await stage.fenced(groups)))

    return case


def nameless(call):
    return lambda _stage, groups: call(Groups(groups.client, ""))


def plain(call):
    return lambda _stage, groups: call(groups)


async def _commit_and(groups, call):
    assert await groups.commit(1) == 0
    return await call(groups)


E = ErrorCode
COMMIT, FETCH, FIND = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR
JOIN, SYNC, HEARTBEAT, LEAVE = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP
DESCRIBE, LIST, DELETE = ApiKey.DESCRIBE_GROUPS, ApiKey.LIST_GROUPS, ApiKey.DELETE_GROUPS
OFFSET_DELETE, TXN = ApiKey.OFFSET_DELETE, ApiKey.TXN_OFFSET_COMMIT

_ASK = {
    JOIN: plain(lambda g: g.join()),
    SYNC: plain(lambda g: g.sync("a", 1)),
    HEARTBEAT: plain(lambda g: g.heartbeat("a", 1)),
    LEAVE: plain(lambda g: g.leave("a")),
    COMMIT: plain(lambda g: g.commit(1)),
    FETCH: plain(lambda g: g.fetch()),
    DESCRIBE: plain(lambda g: g.describe()),
    LIST: plain(lambda g: g.list()),
    DELETE: plain(lambda g: g.delete()),
    OFFSET_DELETE: plain(lambda g: g.delete_offset()),
    FIND: plain(lambda g: g.find()),
    TXN: plain(lambda g: g.txn_commit(1)),
}


def each_gets(error, *keys):
    return {(key, error): _ASK[key] for key in keys}


_PEACE = {
    (JOIN, E.INCONSISTENT_GROUP_PROTOCOL): plain(lambda g: g.join(protocols={})),
    (JOIN, E.INVALID_GROUP_ID): nameless(lambda g: g.join()),
    (JOIN, E.UNKNOWN_MEMBER_ID): plain(lambda g: g.join("stranger")),
    (JOIN, E.INVALID_SESSION_TIMEOUT): plain(lambda g: g.join(session_ms=1)),
    (JOIN, E.REBALANCE_IN_PROGRESS): joined_twice_at_once,
    (JOIN, E.INVALID_REQUEST): plain(lambda g: g.join(instance="")),
    (JOIN, E.MEMBER_ID_REQUIRED): plain(lambda g: g.call(JOIN, 4, g.join_request())),
    (JOIN, E.FENCED_INSTANCE_ID): as_fenced(lambda g, me, _: g.join(me, instance="one")),
    (SYNC, E.ILLEGAL_GENERATION): as_member(lambda g, me, at: g.sync(me, at + 1)),
    (SYNC, E.INCONSISTENT_GROUP_PROTOCOL): as_member(lambda g, me, at: g.sync(me, at, protocol="other")),
    (SYNC, E.INVALID_GROUP_ID): nameless(lambda g: g.sync("a", 1)),
    (SYNC, E.UNKNOWN_MEMBER_ID): as_member(lambda g, _, at: g.sync("stranger", at)),
    (SYNC, E.REBALANCE_IN_PROGRESS): as_member_of_a_moving_group(lambda g, me, at: g.sync(me, at)),
    (SYNC, E.FENCED_INSTANCE_ID): as_fenced(lambda g, me, at: g.sync(me, at, instance="one")),
    (HEARTBEAT, E.ILLEGAL_GENERATION): as_member(lambda g, me, at: g.heartbeat(me, at - 1)),
    (HEARTBEAT, E.INVALID_GROUP_ID): nameless(lambda g: g.heartbeat("a", 1)),
    (HEARTBEAT, E.UNKNOWN_MEMBER_ID): plain(lambda g: g.heartbeat("a", 1)),
    (HEARTBEAT, E.REBALANCE_IN_PROGRESS): as_member_of_a_moving_group(lambda g, me, at: g.heartbeat(me, at)),
    (HEARTBEAT, E.FENCED_INSTANCE_ID): as_fenced(lambda g, me, at: g.heartbeat(me, at, instance="one")),
    (LEAVE, E.INVALID_GROUP_ID): nameless(lambda g: g.leave("a")),
    (LEAVE, E.UNKNOWN_MEMBER_ID): as_member(lambda g, _me, _at: g.leave("stranger")),
    (LEAVE, E.FENCED_INSTANCE_ID): as_fenced(lambda g, me, _: g.leave(me, instance="one")),
    (COMMIT, E.UNKNOWN_TOPIC_OR_PARTITION): plain(lambda g: g.commit(1, topic="unknown")),
    (COMMIT, E.OFFSET_METADATA_TOO_LARGE): plain(lambda g: g.commit(1, metadata="x" * 4097)),
    (COMMIT, E.ILLEGAL_GENERATION): as_member(lambda g, me, at: g.commit(1, member_id=me, generation=at + 1)),
    (COMMIT, E.UNKNOWN_MEMBER_ID): as_member(lambda g, _me, _at: g.commit(1)),
    (COMMIT, E.REBALANCE_IN_PROGRESS): commit_before_the_assignment,
    (COMMIT, E.FENCED_INSTANCE_ID): as_fenced(
        lambda g, me, at: g.commit(1, member_id=me, generation=at, instance="one")
    ),
    (DESCRIBE, E.GROUP_ID_NOT_FOUND): plain(lambda g: g.describe()),
    (DELETE, E.NON_EMPTY_GROUP): as_member(lambda g, _me, _at: g.delete()),
    (DELETE, E.GROUP_ID_NOT_FOUND): plain(lambda g: g.delete()),
    (OFFSET_DELETE, E.UNKNOWN_TOPIC_OR_PARTITION): plain(
        lambda g: _commit_and(g, lambda known: known.delete_offset(partition=1))
    ),
    (OFFSET_DELETE, E.INVALID_GROUP_ID): nameless(lambda g: g.delete_offset()),
    (OFFSET_DELETE, E.NON_EMPTY_GROUP): lambda _, g: _member_and(g, kind="connect"),
    (OFFSET_DELETE, E.GROUP_ID_NOT_FOUND): plain(lambda g: g.delete_offset()),
    (OFFSET_DELETE, E.GROUP_SUBSCRIBED_TO_TOPIC): lambda _, g: _member_and(g),
    (FIND, E.INVALID_REQUEST): plain(lambda g: g.find(key_type=2)),
    (FIND, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED): _find_without_transactions,
    (LIST, E.NOT_COORDINATOR): deposed_while_asked,
    (FETCH, E.UNSTABLE_OFFSET_COMMIT): plain(lambda g: _pending_and(g, lambda known: known.fetch(stable=True))),
    (TXN, E.INVALID_GROUP_ID): nameless(lambda g: g.txn_commit(1)),
    (TXN, E.INVALID_REQUEST): plain(lambda g: g.txn_commit(1, name="")),
    (TXN, E.UNKNOWN_TOPIC_OR_PARTITION): plain(lambda g: g.txn_commit(1, topic="unknown")),
    (TXN, E.OFFSET_METADATA_TOO_LARGE): plain(lambda g: g.txn_commit(1, metadata="x" * 4097)),
    (TXN, E.ILLEGAL_GENERATION): as_member(lambda g, me, at: g.txn_commit(1, member_id=me, generation=at + 1)),
    (TXN, E.UNKNOWN_MEMBER_ID): as_member(lambda g, _, at: g.txn_commit(1, member_id="stranger", generation=at)),
    (TXN, E.FENCED_INSTANCE_ID): as_fenced(
        lambda g, me, at: g.txn_commit(1, member_id=me, generation=at, instance="one")
    ),
    (TXN, E.INVALID_PRODUCER_EPOCH): plain(lambda g: g.txn_commit(1, epoch=-1)),
    (TXN, E.INVALID_PRODUCER_ID_MAPPING): plain(lambda g: g.txn_commit(1, producer=-1)),
    (TXN, E.INVALID_TXN_STATE): refused_as(Admission.NOT_IN_TRANSACTION, version=3),
    (TXN, E.TRANSACTION_ABORTABLE): refused_as(Admission.NOT_IN_TRANSACTION, version=4),
}


async def _pending_and(groups, call):
    assert await groups.txn_commit(1) == 0
    return await call(groups)


async def _member_and(groups, **options):
    await groups.member(**options)
    return await groups.delete_offset()


WORLDS = {
    "at peace": (at_peace, _PEACE),
    "in a small group": (at_peace_with(max_size=1), {(JOIN, E.GROUP_MAX_SIZE_REACHED): one_more_than_there_may_be}),
    "with small records": (
        at_peace_with(record_bytes_max=2000),
        {
            (JOIN, E.UNKNOWN_SERVER_ERROR): a_new_life_that_says_too_much,
            (SYNC, E.UNKNOWN_SERVER_ERROR): too_large_an_assignment,
            (COMMIT, E.INVALID_COMMIT_OFFSET_SIZE): plain(lambda g: g.commit(1, metadata="x" * 3000)),
            (TXN, E.INVALID_COMMIT_OFFSET_SIZE): plain(lambda g: g.txn_commit(1, metadata="x" * 3000)),
        },
    ),
    "before the topic is there": (
        before_the_topic,
        {
            **each_gets(
                *(E.NOT_COORDINATOR, JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH, DESCRIBE, DELETE, OFFSET_DELETE, TXN)
            ),
            # Last: it creates the topic.
            **each_gets(E.COORDINATOR_NOT_AVAILABLE, FIND),
        },
    ),
    "while its group is deleted": (
        while_a_group_is_deleted,
        each_gets(E.COORDINATOR_NOT_AVAILABLE, JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, TXN),
    ),
    "while the disk hangs": (
        while_the_disk_hangs,
        {
            **each_gets(E.COORDINATOR_NOT_AVAILABLE, COMMIT, DELETE, OFFSET_DELETE),
            (SYNC, E.COORDINATOR_NOT_AVAILABLE): assignment_to_a_disk_that_hangs,
        },
    ),
    "while commits are not applied": (
        while_commits_are_not_applied,
        each_gets(E.COORDINATOR_NOT_AVAILABLE, FETCH, DESCRIBE, LIST),
    ),
    "elected and not in office": (
        before_office,
        {
            **each_gets(E.COORDINATOR_LOAD_IN_PROGRESS, JOIN, LEAVE, COMMIT, FETCH, DESCRIBE, LIST, DELETE),
            **each_gets(E.COORDINATOR_LOAD_IN_PROGRESS, OFFSET_DELETE, TXN),
            # Clients do not expect that code of these two.
            **each_gets(E.COORDINATOR_NOT_AVAILABLE, HEARTBEAT),
            **each_gets(E.REBALANCE_IN_PROGRESS, SYNC),
        },
    ),
}


def _name(case):
    """The group of a case: its own, so that none meets what another has left."""
    key, error = case
    return f"{key.name}-{error.name}"


def _error(answer):
    if isinstance(answer, tuple):
        answer = answer[0]
    return ErrorCode(answer if isinstance(answer, int) else answer.error_code)


@pytest.mark.parametrize("world", WORLDS)
def test_each_request_gets_the_error_that_is_meant_for_it(tmp_path, monkeypatch, world):
    make, cases = WORLDS[world]

    async def test():
        got = {}
        async with make(tmp_path) as stage:
            monkeypatch.setattr(transactions, "transactions_level", lambda node: stage.level)
            answer_questions(stage)
            for case, ask in cases.items():
                got[case] = _error(await ask(stage, await stage.groups(_name(case))))
        assert {_name(case): error.name for case, error in got.items()} == {_name(case): case[1].name for case in cases}

    run(test, seconds=2 * _SECONDS)


def test_every_error_that_is_listed_has_a_request_that_brings_it():
    brought = {case for _, cases in WORLDS.values() for case in cases}
    listed = {(key, error) for key, errors in ANSWERED_ERRORS.items() for error in errors}
    assert brought == listed


def test_the_code_of_groups_names_no_error_that_is_not_listed():
    shared, handlers = Path(coordinator_errors.__file__), Path(registry.__file__).parent
    lists = {Path(answered_errors.__file__), shared}
    folders = (Path(answered_errors.__file__).parent, shared.parent)
    sources = [path for folder in folders for path in folder.glob("*.py") if path not in lists]
    sources += [handlers / f"{key.name.lower()}.py" for key in ANSWERED_ERRORS]
    named = {
        ErrorCode[node.attr]
        for source in sources
        for node in ast.walk(ast.parse(source.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ErrorCode"
    }
    # What TxnOffsetCommit gets from the coordinator of the transaction stands beside what Produce gets.
    named |= {
        admission_code(each, ApiKey.TXN_OFFSET_COMMIT, version)
        for each in Admission
        for version in (0, registry.OF_TRANSACTIONS[ApiKey.TXN_OFFSET_COMMIT].last_version)
    }
    assert named == {ErrorCode.NONE}.union(*ANSWERED_ERRORS.values())


def _engine_errors():
    """What a write or a read of the engine ends with; a test of error_mapping sees that none is missing there."""
    named = [each for each in vars(raft_errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    return [each for each in named if error_code(each.__new__(each)) is not ErrorCode.UNKNOWN_SERVER_ERROR]


@pytest.mark.parametrize("error", _engine_errors())
def test_an_error_of_the_engine_sends_clients_back_or_to_the_next_coordinator(error):
    told = coordinator_errors.coordinator_error(error.__new__(error))
    assert told in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
