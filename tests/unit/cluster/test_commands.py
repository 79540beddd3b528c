"""The payloads of raft0's entries."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.commands import (
    FORMAT_VERSION,
    AllocateProducerIds,
    BrokerRecord,
    CreateTopic,
    DeleteTopic,
    RegisterBroker,
    ReplicaRecord,
    UnknownCommandError,
    decode_command,
    encode_command,
)

BROKER = BrokerRecord(1, "d" * 32, "kafka", 9092, "rpc", 9093, "admin", 9094)
COMMANDS = [
    RegisterBroker(BROKER),
    CreateTopic("t", "a" * 32, [[ReplicaRecord(1, "d"), ReplicaRecord(2, "e")], [ReplicaRecord(2, "e")]], {"k": "v"}),
    CreateTopic("\u00fc", "a" * 32, [[ReplicaRecord(1, "d")]], {}),
    DeleteTopic("a" * 32),
    AllocateProducerIds(2**40, 1000),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_command_is_read_as_it_was_written(command, kind):
    assert decode_command(kind(encode_command(command))) == command


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_byte_is_the_format(command):
    assert encode_command(command)[0] == FORMAT_VERSION == 1


@pytest.mark.parametrize("payload", [b"", b"\0", b"\2", b"\xff" + encode_command(DeleteTopic("x"))[1:]])
def test_another_format_is_a_named_error(payload):
    with pytest.raises(UnknownCommandError, match="format"):
        decode_command(payload)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        msgspec.msgpack.encode({"type": "from_the_future"}),
        msgspec.msgpack.encode({"topic_id": "no tag"}),
        msgspec.msgpack.encode({"type": "delete_topic"}),
        msgspec.msgpack.encode({"type": "delete_topic", "topic_id": 7}),
        msgspec.msgpack.encode([1, 2]),
        encode_command(COMMANDS[1])[1:-1],
        encode_command(COMMANDS[1])[1:] + b"\0",
    ],
)
def test_what_this_version_cannot_read_is_a_named_error(body):
    with pytest.raises(UnknownCommandError, match="cannot be read"):
        decode_command(bytes([FORMAT_VERSION]) + body)


def test_fields_of_a_later_version_are_passed_over():
    body = msgspec.msgpack.encode({"type": "delete_topic", "topic_id": "x", "why": "new in format 1"})
    assert decode_command(b"\1" + body) == DeleteTopic("x")


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_hostile_bytes_meet_the_named_error_or_are_a_command(data):
    for payload in (data, bytes([FORMAT_VERSION]) + data):
        try:
            command = decode_command(payload)
        except UnknownCommandError:
            continue
        assert decode_command(encode_command(command)) == command
