"""Answers that are sent together: small ones in one piece, a large one by itself, in the order of their requests."""

from hypothesis import given
from hypothesis import strategies as st
from wire_client import broker_in

from kafka_api.answer import Answer, Outgoing
from kafka_api.connection import Connection
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import RequestHeader
from kafka_api.protocol.messages import ApiVersionsRequest
from kafka_api.response_pieces import COPIED_BYTES_MAX
from tests.unit.cluster.cluster_nodes import run


def answer(size: int, api_key: int = ApiKey.PRODUCE) -> Answer:
    header = RequestHeader(api_key, 9, 1, None, 0)
    return Answer(header, [b"x" * size], size, None)


@given(st.lists(st.integers(1, 2 * COPIED_BYTES_MAX), min_size=1))
def test_all_answers_go_out_once_and_only_small_ones_share_a_piece(sizes):
    waiting, sent = [answer(size) for size in sizes], []
    while waiting:
        outgoing = Outgoing()
        count = 0
        while waiting and outgoing.add(waiting[0], waiting[0].buffers):
            waiting.pop(0)
            count += 1
        assert count == 1 or (count > 1 and outgoing.size <= COPIED_BYTES_MAX)
        assert outgoing.size == outgoing.counted_bytes == sum(map(len, outgoing.buffers))
        sent += map(len, outgoing.buffers)
    assert sent == sizes


def test_a_fetch_among_them_is_known_because_its_memory_is_free_afterwards():
    outgoing = Outgoing()
    assert outgoing.add(answer(10), [b"x"])
    assert not outgoing.has_fetch
    assert outgoing.add(answer(10, ApiKey.FETCH), [b"x"])
    assert outgoing.add(answer(10), [b"x"])
    assert outgoing.has_fetch


def test_answers_that_are_there_at_the_same_time_take_one_write(tmp_path, monkeypatch):
    async def test():
        writes = []
        write = Connection._write

        async def counted(connection, piece):
            writes.append(len(piece))
            return await write(connection, piece)

        monkeypatch.setattr(Connection, "_write", counted)
        async with broker_in(tmp_path) as broker:
            client = await broker.client()
            sent = [client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()) for _ in range(8)]
            assert [(await client.receive())[0] for _ in sent] == sent
            assert len(writes) < len(sent)

    run(test)
