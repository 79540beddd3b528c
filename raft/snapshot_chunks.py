"""Chunks of a snapshot on the wire (RFC 0008 section 5).

A chunk of a snapshot that is saved in parts travels behind its own checksum: CRC32C of the snapshot's checksum, the
position and the bytes. So the follower finds damage in a chunk as it arrives, and a chunk of another snapshot, or for
another place. A snapshot of format 1 travels as it always did, in bare bytes.
"""

import struct

import crc32c

from raft.messages import InstallSnapshotRequest
from storage.entry import Buffer

_CRC_BYTES = 4
_SEED = struct.Struct(">IQ")


def is_sealed(request: InstallSnapshotRequest) -> bool:
    """Whether the request's chunk has a checksum: its snapshot is saved in parts (`snapshot_file.has_parts`)."""
    return bool(request.configuration)


def seal_chunk(request: InstallSnapshotRequest, chunk: Buffer) -> Buffer:
    """Return the payload that brings `chunk`."""
    if not is_sealed(request):
        return chunk
    return b"".join((_checksum(request, chunk), chunk))


def chunk_size(request: InstallSnapshotRequest, payload: Buffer) -> int:
    """Return how many bytes of the state a payload brings; negative if it is too short for its checksum."""
    return len(payload) - (_CRC_BYTES if is_sealed(request) else 0)


def open_chunk(request: InstallSnapshotRequest, payload: bytes) -> bytes | None:
    """Return the bytes of the state that a payload brings; None if they are not what was sent."""
    if not is_sealed(request):
        return payload
    chunk = payload[_CRC_BYTES:]
    return chunk if payload[:_CRC_BYTES] == _checksum(request, chunk) else None


def _checksum(request: InstallSnapshotRequest, chunk: Buffer) -> bytes:
    seed = crc32c.crc32c(_SEED.pack(request.checksum, request.position))
    return crc32c.crc32c(chunk, seed).to_bytes(_CRC_BYTES, "big")
