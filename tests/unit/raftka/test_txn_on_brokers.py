"""`raftka txn find-hanging` and `raftka txn abort` of transactions that really hang: no coordinator will ever end them."""

import asyncio
import json

import pytest

from kafka_api.protocol.error_codes import ErrorCode
from model.ids import ConsistencyLevel
from raftka.cli.root import run
from tests.unit.kafka_api.transactions.transaction_calls import kept_of, markers, readable, with_transactions
from tests.unit.model.record_batches import TRANSACTIONAL, build_batch

LOST = 900


async def lose(broker, number, producer_id=LOST):
    """Open a transaction in a partition that no coordinator knows of."""
    partition = broker.partition("t", number)
    guard, term = partition.log_state.fences.guard(producer_id), partition.leader_epoch
    now = broker.node.env.wall_clock.now_ms()
    batch = build_batch(
        b"v", timestamps=[now], producer_id=producer_id, producer_epoch=2, base_sequence=0, attributes=TRANSACTIONAL
    )
    level, deadline = ConsistencyLevel.QUORUM_ACK, asyncio.get_running_loop().time() + 10
    stages = partition.produce(bytearray(batch), 1, level, deadline, term, guard=guard, is_durable=True)
    await stages.replicated


class Typed:
    """What is typed in a terminal, beside the broker of the test."""

    def __init__(self, broker, capsys):
        self._address = ("--brokers", f"127.0.0.1:{broker.port}")
        self._capsys = capsys

    async def __call__(self, *words, code=0):
        """Return both outputs."""
        assert await asyncio.to_thread(run, ["txn", *words, *self._address]) == code
        return "".join(self._capsys.readouterr())

    async def hanging(self):
        """Return what hangs: partition, producer, epoch, first offset and transactional id of each."""
        found = json.loads(await self("find-hanging", "--max-transaction-timeout", "0", "-f", "json"))
        return [
            (
                each["partition"],
                each["producer_id"],
                each["producer_epoch"],
                each["start_offset"],
                each["transactional_id"],
            )
            for each in found
        ]


@with_transactions(seconds=60)
async def test_a_transaction_that_its_coordinator_has_lost_is_found_and_aborted(
    broker, producer, capsys: pytest.CaptureFixture[str]
):
    typed = Typed(broker, capsys)
    await producer.init()
    for partition in (0, 1):
        assert await producer.send(partition=partition) is ErrorCode.NONE
    # One that takes long does not hang.
    assert await typed.hanging() == []
    assert "does not hang: transactional id 'sink' has it open" in await typed(
        "abort", "t/1", "--producer-id", str(producer.producer_id), code=1
    )
    await lose(broker, 1)
    await lose(broker, 2)
    assert await typed.hanging() == [(1, LOST, 2, 1, None), (2, LOST, 2, 0, None)]
    # By default a transaction is passed over that its coordinator may still end.
    assert await typed("find-hanging") == "no transaction hangs\n"
    assert "nothing is changed" in await typed("abort", "t/2", "--start-offset", "0", "--dry-run")
    assert await readable(producer.client, partition=2) == (1, 0)
    said = await typed("abort", "t/2", "--start-offset", "0")
    assert said == f"t/2: aborted the transaction of producer {LOST}, epoch 2, from offset 0\n"
    assert await readable(producer.client, partition=2) == (2, 2)
    assert "has no open transaction" in await typed("abort", "t/2", "--producer-id", str(LOST), code=1)
    await typed("abort", "t/1", "--producer-id", str(LOST))
    assert await typed.hanging() == []
    # The other producer's is as it was.
    assert await readable(producer.client, partition=1) == (3, 0)
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    assert await readable(producer.client, partition=1) == (4, 4)
    assert [epoch for _, epoch in await markers(producer.client, partition=1)] == [2, 1]


@with_transactions(seconds=60)
async def test_a_transaction_of_an_id_that_was_forgotten_or_goes_on_without_it_hangs(
    broker, producer, capsys: pytest.CaptureFixture[str]
):
    """The coordinator's partition has lost its records: by an unclean restore, or by somebody who deleted them."""
    typed = Typed(broker, capsys)
    await producer.init()
    assert await producer.send() is ErrorCode.NONE
    kept = kept_of(broker)
    kept._held.clear()
    await kept.write("sink", None)
    assert (await producer.describe()).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert await producer.end() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert await typed.hanging() == [(0, producer.producer_id, 0, 0, None)]
    # The id's next producer does not end it: it has another producer id.
    before = producer.producer_id
    await producer.init()
    assert producer.producer_id != before
    assert [each[:2] for each in await typed.hanging()] == [(0, before)]
    await typed("abort", "t/0", "--producer-id", str(before))
    assert await readable(producer.client) == (2, 2)
    assert await producer.send() is ErrorCode.NONE
    assert await producer.end() is ErrorCode.NONE
    await producer.until_state("CompleteCommit")
    assert await readable(producer.client) == (4, 4)
