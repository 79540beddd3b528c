"""RFC 0005: what the log holds is no view of a buffer that receives the next request (counterexample 13)."""

import pytest
from test_fetch import joined
from wire_client import broker_in

import kafka_api.handlers.produce
import kafka_api.protocol.framing
import raft.replicate_batcher
from tests.unit.cluster.cluster_nodes import run
from tests.unit.model.record_batches import build_batch


def _two_batches_come_through_one_receive_buffer(directory) -> None:
    async def test():
        async with broker_in(directory) as broker:
            client = await broker.client()
            await client.create_topic("t")
            for value in (b"one", b"two"):
                assert (await client.produce("t", build_batch(value * 20))).error_code == 0
            expected = [
                build_batch(value * 20, base_offset=base, leader_epoch=1) for base, value in enumerate((b"one", b"two"))
            ]
            assert joined(await client.fetch("t", 0)) == b"".join(expected), "the log holds other bytes"

    run(test)


def test_an_accepted_batch_stays_what_it_was_when_the_next_request_comes(tmp_path):
    _two_batches_come_through_one_receive_buffer(tmp_path)


class _Views:
    """`bytes` and `bytearray` that copy nothing."""

    def __new__(cls, content=b""):
        return content


def test_an_accepted_batch_becomes_the_next_one_if_nothing_is_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_api.protocol.framing, "bytes", _Views, raising=False)
    monkeypatch.setattr(kafka_api.handlers.produce, "bytearray", _Views, raising=False)
    # It insists on memory of its own.
    monkeypatch.setattr(raft.replicate_batcher, "bytearray", memoryview, raising=False)
    with pytest.raises(AssertionError, match="the log holds other bytes"):
        _two_batches_come_through_one_receive_buffer(tmp_path)


def test_the_copy_at_acceptance_is_enough_by_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_api.protocol.framing, "bytes", _Views, raising=False)
    _two_batches_come_through_one_receive_buffer(tmp_path)
