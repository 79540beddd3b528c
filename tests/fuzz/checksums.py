"""Right checksums for damaged bytes: otherwise nearly every damage ends at the checksum, and nothing behind it is met.

None of these raises, whatever the bytes are.
"""

import struct

import crc32c

from model.record_batch import CRC_START
from rpc.framing import CHUNK_HEAD_BYTES, PREFIX_BYTES
from storage.entry import HEADER, HEADER_BYTES, MAGIC, EntryKind

_MAGIC_BYTES = MAGIC.to_bytes(4, "big")
_BATCH_CRC = 17
_BATCH_HEAD = struct.Struct(">qiib")
_LENGTHS = struct.Struct(">II")
_CHUNK_FLAG = 1 << 31


def sealed_body(data: bytes) -> bytes:
    """Return the bytes behind their CRC32C, as index and snapshot files are."""
    return crc32c.crc32c(data).to_bytes(4, "big") + data


def sealed_parts(data: bytes) -> bytes:
    """Return a snapshot file in parts with right checksums, as far as its sizes lead from one part to the next.

    Only what stands in the file counts; the numbers of the parts stay as they are.
    """
    out = bytearray(data)
    position = 13 + int.from_bytes(out[5:9], "big")
    if position > len(out):
        return data
    seed = crc32c.crc32c(out[13:position], crc32c.crc32c(out[4:9])).to_bytes(4, "big")
    out[9:13] = seed
    while position + 12 <= len(out):
        stop = position + 12 + int.from_bytes(out[position + 4 : position + 8], "big")
        head = seed + out[position : position + 8]
        crc = crc32c.crc32c(out[position + 12 : stop], crc32c.crc32c(head))
        out[position + 8 : position + 12] = crc.to_bytes(4, "big")
        position = stop
    return sealed_body(bytes(out[4:]))


def sealed_batch(data: bytes) -> bytes:
    """Return the record batch with the right length, magic and CRC; unchanged if it is too short for one."""
    if len(data) <= CRC_START:
        return data
    base_offset, _, leader_epoch, _ = _BATCH_HEAD.unpack_from(data)
    head = _BATCH_HEAD.pack(base_offset, len(data) - 12, leader_epoch, 2)
    return head + crc32c.crc32c(data[CRC_START:]).to_bytes(4, "big") + data[CRC_START:]


def sealed_entries(data: bytes) -> bytes:
    """Return the log entries with right checksums wherever an entry's magic is found; lengths stay as they are."""
    out = bytearray(data)
    position = 0
    while (position := out.find(_MAGIC_BYTES, position)) >= 0 and position + HEADER_BYTES <= len(out):
        body = position + HEADER_BYTES
        length, kind = int.from_bytes(out[position + 4 : position + 8], "big"), out[position + 24]
        stop = body + length
        covered = 0
        if kind == EntryKind.DATA:
            covered = min(length, CRC_START)
            if length > CRC_START and stop <= len(out):
                crc = crc32c.crc32c(out[body + CRC_START : stop])
                out[body + _BATCH_CRC : body + CRC_START] = crc.to_bytes(4, "big")
        else:
            out[position + 48 : position + 52] = crc32c.crc32c(out[body:stop]).to_bytes(4, "big")
        head = position + HEADER.size
        out[head:body] = crc32c.crc32c(out[body : body + covered], crc32c.crc32c(out[position:head])).to_bytes(4, "big")
        position = stop if stop <= len(out) else position + 1
    return bytes(out)


def sealed_frames(data: bytes) -> bytes:
    """Return the node link's frames with right checksums, as far as their lengths lead from one to the next."""
    out = bytearray(data)
    position = 0
    while position + PREFIX_BYTES <= len(out):
        first, _ = _LENGTHS.unpack_from(out, position)
        if first & _CHUNK_FLAG:
            out[position + 4 : position + 8] = crc32c.crc32c(out[position : position + 4]).to_bytes(4, "big")
            _seal_frame(out, position + CHUNK_HEAD_BYTES)
            position += CHUNK_HEAD_BYTES + (first & ~_CHUNK_FLAG)
        else:
            _seal_frame(out, position)
            position += 4 + first
    return bytes(out)


def _seal_frame(out: bytearray, position: int) -> None:
    if position + PREFIX_BYTES > len(out):
        return
    _, header_bytes = _LENGTHS.unpack_from(out, position)
    header = out[position + PREFIX_BYTES : position + PREFIX_BYTES + header_bytes]
    crc = crc32c.crc32c(header, crc32c.crc32c(out[position : position + 8]))
    out[position + 8 : position + 12] = crc.to_bytes(4, "big")
