"""Batches of a few kilobytes that unpack to 2 GiB: a compacted topic refuses them, and their memory is bounded."""

import asyncio
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from wire_client import broker_in

from kafka_api.key_checks import UNPACKED_BYTES_MAX
from kafka_api.protocol.error_codes import ErrorCode
from model.record_batch import HEADER_BYTES
from tests.unit.cluster.cluster_nodes import run
from tests.unit.kafka_api.test_compacted_topics import MIB, keyed
from tests.unit.model.record_batches import GZIP, ZSTD, build_batch

BOMB_BYTES = 2 * 1024 * MIB
# A buffer of 16 MiB was too small, and the allocator keeps it. Then there are the requests, and what else a broker does.
SLACK_BYTES = 48 * MIB
_BLOCK = 128 * 1024


def zstd_bomb(*, tells_size):
    """One frame of blocks that repeat a byte (RFC 8878, 3.1.1); its header may tell the size of all."""
    header = b"\xc0\x50" + BOMB_BYTES.to_bytes(8, "little") if tells_size else b"\x00\x50"
    count = BOMB_BYTES // _BLOCK
    blocks = [(_BLOCK << 3 | 1 << 1 | (number == count - 1)).to_bytes(3, "little") + b"\0" for number in range(count)]
    return b"\x28\xb5\x2f\xfd" + header + b"".join(blocks)


def gzip_bomb():
    """One member; what was flushed in full may be repeated."""
    packer, block, count = zlib.compressobj(9, zlib.DEFLATED, -15), bytes(16 * MIB), BOMB_BYTES // (16 * MIB)
    part = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(count):
        crc = zlib.crc32(block, crc)
    end = packer.flush() + struct.pack("<II", crc, BOMB_BYTES % 2**32)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + part * count + end


BOMBS = {
    "zstd": (ZSTD, lambda: zstd_bomb(tells_size=False)),
    "zstd that tells its size": (ZSTD, lambda: zstd_bomb(tells_size=True)),
    "gzip": (GZIP, gzip_bomb),
}


class Peak:
    """The most memory of this process since its memory was marked, above what it had then."""

    def __init__(self):
        # Linux forgets the peak.
        Path("/proc/self/clear_refs").write_text("5")
        self._before = self._kib("VmRSS")

    @staticmethod
    def _kib(name):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])

    @property
    def bytes(self):
        return (self._kib("VmHWM") - self._before) * 1024


def can_be_measured():
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return True
    return False


pytestmark = pytest.mark.skipif(not can_be_measured(), reason="the peak of a process cannot be set back here")


@pytest.mark.parametrize("what", BOMBS)
def test_batches_that_unpack_to_2_gib_are_refused_within_bounded_memory(tmp_path, what):
    codec, make = BOMBS[what]
    batch = build_batch(b"", codec=codec, payload=make())
    assert len(batch) - HEADER_BYTES < BOMB_BYTES / 500

    async def test():
        async with broker_in(tmp_path) as broker:
            clients = [await broker.client() for _ in range(4)]
            await clients[0].create_topic("t", cleanup_policy="compact", max_message_bytes=str(8 * MIB))
            assert (await clients[0].produce("t", keyed((b"k", b"v")))).error_code == ErrorCode.NONE
            peak = Peak()
            results = []
            # All at once: they are unpacked one after the other. And again: what was refused leaves nothing behind.
            for _ in range(2):
                results += await asyncio.gather(*[client.produce("t", batch, version=9) for client in clients])
            assert peak.bytes < UNPACKED_BYTES_MAX + SLACK_BYTES, f"{peak.bytes / MIB:.0f} MiB"
            for result in results:
                assert (result.error_code, result.record_errors) == (ErrorCode.INVALID_RECORD, [])
                assert result.error_message.startswith("its keys cannot be read: ")
            # It goes on.
            assert (await clients[0].produce("t", keyed((b"k", b"v")))).base_offset == 1
            assert broker.partition("t").end_offset == 2

    run(test, seconds=120)
