"""Every key, direction and version of the schema against kio, an implementation of others.

kio does not do unknown tagged fields (KeyError), times that are no datetime, and error codes without a name; those are
in test_codec.py without an oracle. Everything else of our keys it has, in every version.
"""

import io
import random

import pytest
from kio.serial import entity_reader, entity_writer
from random_messages import MESSAGES, assert_same, kio_class, random_kio_message

from kafka_api.protocol.codec import decoder, encoder
from kafka_api.protocol.schema.message_schema import Direction, schema_of

MESSAGES_PER_VERSION = 24


@pytest.mark.parametrize(("key", "direction"), MESSAGES, ids=lambda value: str(getattr(value, "value", value)))
def test_what_kio_writes_is_read_and_written_byte_for_byte(key: int, direction: Direction) -> None:
    schema = schema_of(key, direction)
    for version in range(schema.versions.low, schema.versions.high + 1):
        entity = kio_class(key, direction, version)
        write, read = entity_writer(entity), entity_reader(entity)
        decode, encode = decoder(key, version, direction), encoder(key, version, direction)
        for seed in range(MESSAGES_PER_VERSION):
            theirs = random_kio_message(entity, random.Random(f"{key} {direction} {version} {seed}"))
            buffer = io.BytesIO()
            write(buffer, theirs)
            written = buffer.getvalue()

            ours, position = decode(memoryview(written), 0, len(written))
            assert position == len(written)
            assert_same(ours, schema.struct, version, theirs)

            out: list[bytes | bytearray | memoryview] = []
            out.append(encode(ours, out, bytearray()))
            again = b"".join(out)
            assert again == written, f"v{version} seed {seed}: {ours}"
            assert read(again, 0) == (theirs, len(again))
