"""Whose time records carry: LogAppendTime, and the bounds of CreateTime."""

import pytest
from wire_client import broker_in, with_client

from kafka_api.protocol.error_codes import ErrorCode
from model.record_batch import check_batch
from model.record_codec import record_positions, unpack_records
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import run
from tests.unit.model.record_batches import GZIP, LOG_APPEND_TIME, LZ4, NONE, SNAPPY, ZSTD, build_batch

NOW = 1_800_000_000_000
SECOND, HOUR = 1000, 3_600_000


class SetClock:
    """A wall clock that stands where it is put."""

    def __init__(self, now_ms):
        self.value = now_ms

    def now_ms(self):
        return self.value


def at(broker, now_ms):
    """Put the broker's wall clock somewhere."""
    object.__setattr__(broker.node.env, "wall_clock", SetClock(now_ms))


def batch_at(*timestamps, codec=NONE, **fields):
    return build_batch(*(b"value" for _ in timestamps), timestamps=list(timestamps), codec=codec, **fields)


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_the_brokers_time_is_that_of_every_record_compressed_or_not(tmp_path, codec):
    async def test(broker, client):
        at(broker, NOW)
        await client.create_topic("t", message_timestamp_type="LogAppendTime")
        sent = batch_at(5, 2**60, 7, codec=codec)
        result = await client.produce("t", sent)
        assert (result.error_code, result.log_append_time_ms) == (0, NOW)
        batch = bytes((await client.fetch("t", 0)).records)
        header = check_batch(batch)
        assert header.uses_log_append_time
        assert (header.max_timestamp, header.codec, header.record_count) == (NOW, codec, 3)
        assert batch[61:] == sent[61:]
        assert len(list(record_positions(header, unpack_records(batch)))) == 3

    with_client(tmp_path, test)


def test_the_brokers_time_never_falls_behind_the_batch_before(tmp_path):
    async def test(broker, client):
        await client.create_topic("t", message_timestamp_type="LogAppendTime")
        times = []
        for now in (NOW, NOW - SECOND, NOW - HOUR, NOW + 1, NOW):
            at(broker, now)
            times.append((await client.produce("t", batch_at(1))).log_append_time_ms)
        assert times == [NOW, NOW, NOW, NOW + 1, NOW + 1]

    with_client(tmp_path, test)


def test_a_new_leader_whose_clock_is_behind_goes_on_where_the_log_ends(tmp_path):
    async def test():
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", message_timestamp_type="LogAppendTime")
            at(broker, NOW)
            await client.produce("t", batch_at(1))
            partition = broker.partition("t")
            term = partition.leader_epoch
            consensus_of(partition).step_down("a test")
            at(broker, NOW - HOUR)
            while True:
                result = await client.produce("t", batch_at(1))
                if result.error_code == 0:
                    break
                assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert result.log_append_time_ms == -1
            assert partition.leader_epoch > term
            assert result.log_append_time_ms == NOW

    run(test)


def test_with_create_time_the_producers_time_stays_and_the_answer_has_none(tmp_path):
    async def test(broker, client):
        at(broker, NOW)
        await client.create_topic("t")
        sent = batch_at(NOW - HOUR, NOW)
        assert (await client.produce("t", sent)).log_append_time_ms == -1
        header = check_batch(bytes((await client.fetch("t", 0)).records))
        assert (header.base_timestamp, header.max_timestamp) == (NOW - HOUR, NOW)
        assert not header.uses_log_append_time

    with_client(tmp_path, test)


@pytest.mark.parametrize("codec", [NONE, ZSTD])
@pytest.mark.parametrize(
    ("timestamps", "code"),
    [
        ((NOW,), 0),
        ((NOW - HOUR, NOW + SECOND), 0),
        ((NOW - HOUR - 1,), ErrorCode.INVALID_TIMESTAMP),
        ((NOW - HOUR - 1, NOW), ErrorCode.INVALID_TIMESTAMP),
        ((NOW + SECOND + 1,), ErrorCode.INVALID_TIMESTAMP),
        ((NOW, NOW + SECOND + 1), ErrorCode.INVALID_TIMESTAMP),
        ((2**63 - 1,), ErrorCode.INVALID_TIMESTAMP),
        ((-(2**63),), ErrorCode.INVALID_TIMESTAMP),
        ((-1,), 0),
    ],
)
def test_a_producers_time_must_lie_within_the_bounds(tmp_path, timestamps, code, codec):
    async def test(broker, client):
        at(broker, NOW)
        bounds = {"message_timestamp_before_max_ms": str(HOUR), "message_timestamp_after_max_ms": str(SECOND)}
        await client.create_topic("t", **bounds)
        result = await client.produce("t", batch_at(*timestamps, codec=codec), version=9)
        assert result.error_code == code
        assert bool(result.error_message) == bool(code)
        assert broker.partition("t").end_offset == (0 if code else len(timestamps))

    with_client(tmp_path, test)


def test_by_default_any_past_is_accepted_and_one_hour_of_future(tmp_path):
    async def test(broker, client):
        at(broker, NOW)
        await client.create_topic("t")
        assert (await client.produce("t", batch_at(0))).error_code == 0
        assert (await client.produce("t", batch_at(NOW + HOUR))).error_code == 0
        assert (await client.produce("t", batch_at(NOW + HOUR + 1))).error_code == ErrorCode.INVALID_TIMESTAMP

    with_client(tmp_path, test)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_a_producer_may_not_claim_the_brokers_time(tmp_path, kind):
    async def test(broker, client):
        await client.create_topic("t", message_timestamp_type=kind)
        result = await client.produce("t", batch_at(5, attributes=LOG_APPEND_TIME))
        assert result.error_code == ErrorCode.INVALID_TIMESTAMP

    with_client(tmp_path, test)
