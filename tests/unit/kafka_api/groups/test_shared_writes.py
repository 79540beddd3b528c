"""Writes of many groups share entries: how many rounds and fsyncs they take, in which order, and what each answers."""

import asyncio
from collections import deque
from dataclasses import replace

import pytest

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.groups.records import CommittedOffset, OffsetKey, encoded_size
from cluster.producer_errors import NotAdmittedError
from cluster.state_bounds import StateFullError, StateOptions
from kafka_api.coordinators.coordinator_errors import coordinator_error
from kafka_api.coordinators.shared_writes import SharedWrites, TransactionalBatch
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import ConsistencyLevel, Index, Offset, Term
from model.key_value_batch import KeyValue, encode_key_values, read_key_values
from raft.errors import NotLeaderError, ReplicateTimedOutError
from raft.replicate_item import ReplicateResult, ReplicateStages
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run, until
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups, with_groups
from tests.unit.kafka_api.wire_client import stuck_disk

_ONE_PARTITION = replace(QUICK, topic_partitions=1)
_TIMEOUT = 5.0


class _Log:
    """Takes entries as a partition does; the test says what becomes of the oldest one that has no answer."""

    def __init__(self):
        self.entries = []
        self.deadlines = []
        self.guards = []
        self._asked = deque()

    def produce(self, batch, record_count, level, deadline, expected_term, *, guard=None, is_durable=False):
        self.guards.append(guard if is_durable else "plain")
        assert level is ConsistencyLevel.QUORUM_ACK
        assert expected_term == 3
        keys = [record.key for record in read_key_values(batch)]
        assert len(keys) == record_count
        self.entries.append(keys)
        self.deadlines.append(deadline)
        loop = asyncio.get_running_loop()
        stages = ReplicateStages(loop.create_future(), loop.create_future())
        self._asked.append((len(self.entries), stages.replicated))
        return stages

    async def commit(self):
        number, replicated = self._asked.popleft()
        replicated.set_result(ReplicateResult(Index(number), Index(number), Offset(0), Term(3)))
        await _steps()

    async def refuse(self, error):
        self._asked.popleft()[1].set_exception(error)
        await _steps()


async def _steps():
    for _ in range(4):
        await asyncio.sleep(0)


def _writes(log, **options):
    return SharedWrites(log, Term(3), ConsistencyLevel.QUORUM_ACK, _TIMEOUT, lambda: 0, coordinator_error, **options)


def _record(name, size=1):
    return KeyValue(name, bytes(size))


def with_log(test):
    def wrapped():
        async def whole():
            log = _Log()
            await test(log, _writes(log))

        run(whole)

    wrapped.__name__ = test.__name__
    return wrapped


@with_log
async def test_writes_that_come_together_are_one_entry_in_the_order_of_their_calls(log, writes):
    done = [writes.write([_record(b"%d" % number)]) for number in range(50)]
    await _steps()
    assert log.entries == [[b"%d" % number for number in range(50)]]
    assert not any(each.done() for each in done)
    await log.commit()
    assert [each.result() for each in done] == [1] * 50


@with_log
async def test_writes_that_come_while_one_is_under_way_share_the_next_entry(log, writes):
    first = writes.write([_record(b"a")])
    await _steps()
    others = [writes.write([_record(name)]) for name in (b"b", b"c")]
    await _steps()
    assert log.entries == [[b"a"]]
    await log.commit()
    assert first.result() == 1
    assert log.entries == [[b"a"], [b"b", b"c"]]
    # They are answered by their own entry, not by the one that was under way when they came.
    assert not any(each.done() for each in others)
    await log.commit()
    assert [each.result() for each in others] == [2, 2]


def _batch(name, guard=None):
    return TransactionalBatch(encode_key_values([_record(name)], 0), 1, guard)


@with_log
async def test_a_batch_of_a_transaction_goes_alone_and_waits_for_no_commit(log, writes):
    writes.write([_record(b"a")])
    first = writes.write_batch(_batch(b"x", 7))
    await _steps()
    assert log.entries == [[b"a"], [b"x"]]
    # It overtakes nothing that came before it, and what comes behind it waits for all entries under way.
    for name in (b"b", b"c"):
        writes.write([_record(name)])
    second, third = writes.write_batch(_batch(b"y")), writes.write_batch(_batch(b"z", 8))
    writes.write([_record(b"d")])
    await _steps()
    assert log.entries == [[b"a"], [b"x"]]
    await log.commit()
    await log.commit()
    assert first.result() == 2
    assert log.entries == [[b"a"], [b"x"], [b"b", b"c"], [b"y"], [b"z"]]
    assert log.guards == ["plain", 7, "plain", None, 8]
    await log.commit()
    await log.refuse(NotAdmittedError("a marker came"))
    await log.commit()
    assert second.result() is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert third.result() == 5
    assert log.entries[5:] == [[b"d"]]


@with_log
async def test_a_write_is_in_one_entry_as_a_whole_and_a_large_one_goes_alone(log, writes):
    half = 40 * 1024
    for name in (b"a", b"b"):
        writes.write([_record(name, half), _record(name + b"2")])
    writes.write([_record(b"large", 10 * half)])
    writes.write([_record(b"c")])
    for _ in range(4):
        await _steps()
        await log.commit()
    assert log.entries == [[b"a", b"a2"], [b"b", b"b2"], [b"large"], [b"c"]]


@with_log
async def test_writes_of_an_entry_that_the_table_has_no_room_for_are_judged_one_by_one(log, writes):
    done = [writes.write([_record(name)]) for name in (b"a", b"b", b"c")]
    await _steps()
    later = writes.write([_record(b"d")])
    await log.refuse(StateFullError("full"))
    # Nothing of the entry was written. All of them are ahead of what came later.
    assert log.entries[1:] == [[b"a"], [b"b"], [b"c"]]
    await log.commit()
    await log.refuse(StateFullError("full"))
    assert len(log.entries) == 4
    await log.commit()
    assert [each.result() for each in done] == [2, ErrorCode.INVALID_COMMIT_OFFSET_SIZE, 4]
    assert log.entries[4:] == [[b"d"]]
    await log.commit()
    assert later.result() == 5


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotLeaderError("deposed"), ErrorCode.NOT_COORDINATOR),
        (ReplicateTimedOutError("late"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_the_error_of_an_entry_is_told_to_everybody_in_it_and_the_next_ones_go_on(error, code):
    @with_log
    async def test(log, writes):
        done = [writes.write([_record(name)]) for name in (b"a", b"b")]
        await _steps()
        later = writes.write([_record(b"c")])
        await log.refuse(error)
        assert [each.result() for each in done] == [code, code]
        await log.commit()
        assert later.result() == 2

    test()


@with_log
async def test_an_entry_has_the_deadline_of_the_write_that_has_waited_for_longest(log, writes):
    loop = asyncio.get_running_loop()
    writes.write([_record(b"a")])
    await _steps()
    began = loop.time()
    writes.write([_record(b"b")])
    latest = loop.time()
    await asyncio.sleep(0.01)
    writes.write([_record(b"c")])
    await log.commit()
    assert began + _TIMEOUT <= log.deadlines[1] <= latest + _TIMEOUT


@with_groups(_ONE_PARTITION)
async def test_commits_of_fifty_clients_at_once_share_two_rounds_and_two_fsyncs(broker, groups):
    consensus = consensus_of(broker.partition(OFFSETS_TOPIC))
    others = [Groups(await broker.client(), f"g{number}") for number in range(50)]
    before = broker.node.groups.probe.rounds, consensus.log.dirty_index
    fsyncs = []
    flush = consensus.log.flush
    consensus.log.flush = lambda: fsyncs.append(1) or flush()
    async with stuck_disk(broker):
        first = asyncio.ensure_future(groups.commit(1))
        await until(lambda: consensus.log.dirty_index > before[1])
        committing = [asyncio.ensure_future(each.commit(number)) for number, each in enumerate(others)]
        active = broker.server._groups.locate("g")
        await until(lambda: len(active._writes._waiting) == 50)
    assert [await each for each in (first, *committing)] == [0] * 51
    assert broker.node.groups.probe.rounds - before[0] == 2
    assert consensus.log.dirty_index - before[1] == 2
    assert len(fsyncs) == 2
    assert [(await each.fetch())[1] for each in others] == list(range(50))


@with_groups(_ONE_PARTITION)
async def test_a_client_that_is_gone_takes_nobodys_commit_with_it(broker, groups):
    consensus = consensus_of(broker.partition(OFFSETS_TOPIC))
    before = consensus.log.dirty_index
    gone, stays = [Groups(await broker.client(), group) for group in ("gone", "stays")]
    async with stuck_disk(broker):
        first = asyncio.ensure_future(groups.commit(1))
        await until(lambda: consensus.log.dirty_index > before)
        lost = asyncio.ensure_future(gone.commit(2))
        kept = asyncio.ensure_future(stays.commit(3))
        active = broker.server._groups.locate("g")
        await until(lambda: len(active._writes._waiting) == 2)
        await gone.client.close()
    assert [await first, await kept] == [0, 0]
    await asyncio.gather(lost, return_exceptions=True)
    # It was in the queue when its client went: its position is committed, and nobody was told.
    assert (await Groups(groups.client, "gone").fetch())[1] == 2


_METADATA = "x" * 100
_BOUND = 1 + 3 * (8 + encoded_size(OffsetKey("g", "t", 0), CommittedOffset(0, 0, _METADATA, 0)))


@with_groups(_ONE_PARTITION, state=StateOptions(groups_bytes_max=_BOUND))
async def test_one_commit_too_large_for_the_table_refuses_nobody_that_shares_its_entry(broker, groups):
    consensus = consensus_of(broker.partition(OFFSETS_TOPIC))
    before = consensus.log.dirty_index
    small, large = [Groups(await broker.client(), group) for group in ("h", "i")]
    async with stuck_disk(broker):
        first = asyncio.ensure_future(groups.commit(1))
        await until(lambda: consensus.log.dirty_index > before)
        refused = asyncio.ensure_future(large.commit(2, metadata="x" * 4000))
        taken = asyncio.ensure_future(small.commit(3))
        active = broker.server._groups.locate("g")
        await until(lambda: len(active._writes._waiting) == 2)
    assert [await first, await refused, await taken] == [0, ErrorCode.INVALID_COMMIT_OFFSET_SIZE, 0]


def test_durable_records_wait_for_fsyncs_whatever_the_topic_says():
    async def test():
        log = _Log()
        _writes(log, is_durable=True).write([_record(b"a")])
        await _steps()
        assert log.guards == [None]

    run(test)
