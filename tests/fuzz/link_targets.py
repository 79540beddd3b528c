"""What nodes send each other, as targets; `targets` has all others."""

from collections.abc import Iterator, Sequence, Set
from functools import cache
from typing import Any

import msgspec

from cluster import (
    admin_messages,
    broker_changes,
    founding,
    joining,
    leadership,
    leadership_moves,
    move_status,
    node_watch,
    partition_status,
    placements,
    quorum_status,
    visible_ends,
)
from cluster.telemetry import telemetry_relay
from cluster.transactions import admission, markers
from model.ids import DirectoryId, NodeId, Replica
from raft import link_methods
from raft.messages import AppendEntriesRequest, InstallSnapshotRequest
from raft.service import check_snapshot_chunk, parse_run
from raft.snapshot_chunks import chunk_size, is_sealed, open_chunk, seal_chunk
from rpc.codec import body_builtins, decode_header, encode_header, number, parse_body
from rpc.errors import MalformedFrameError
from rpc.framing import FrameReader
from rpc.handshake import FORMAT_VERSION, FORMAT_WITHOUT_EPOCHS, NONCE_BYTES, Handshake, KnownReplicas, Role
from rpc.identity import KnownReplica, LinkIdentity
from rpc.methods import Method
from tests.fuzz.checksums import sealed_entries, sealed_frames
from tests.fuzz.pieces import pieces

RPC_FRAME_BYTES_MAX = 64 * 1024

REPLICA = Replica(NodeId(1), DirectoryId("one"))
TWO = DirectoryId("two")


def rpc_frames(data: bytes) -> None:
    """Frames of a node link; bit 0 of the first byte puts checksums right, the others say how it was segmented."""
    flags = data[0] if data else 0
    stream = sealed_frames(data[1:]) if flags & 1 else data[1:]
    whole, whole_error = _rpc_frames_of(iter([stream]))
    split, split_error = _rpc_frames_of(pieces(stream, (flags >> 1) + 1))
    assert split == whole
    assert str(split_error) == str(whole_error)
    assert sum(len(header) + len(payload) for header, payload in whole) <= len(stream)
    if whole_error is not None:
        raise whole_error


def _rpc_frames_of(pieces: Iterator[bytes]) -> tuple[list[tuple[bytes, bytes]], MalformedFrameError | None]:
    reader = FrameReader(RPC_FRAME_BYTES_MAX)
    found = []
    try:
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                space = reader.buffer()
                count = min(len(space), len(rest))
                space[:count] = rest[:count]
                rest = rest[count:]
                reader.received(count)
                while (frame := reader.next_frame()) is not None:
                    found.append((bytes(frame.header), bytes(frame.payload)))
    except MalformedFrameError as error:
        # Without the frames that it came through: they hold the reader's memory until the garbage collector comes.
        return found, error.with_traceback(None)
    return found, None


_MODULES = (
    *(link_methods, admin_messages, broker_changes, founding, joining, leadership, leadership_moves, move_status),
    *(node_watch, partition_status, placements, quorum_status, visible_ends, telemetry_relay, admission, markers),
)


@cache
def rpc_methods() -> tuple[Method[Any, Any], ...]:
    """Return all methods of links, by number."""
    found = {method for module in _MODULES for method in vars(module).values() if isinstance(method, Method)}
    return tuple(sorted(found, key=lambda each: each.number))


@cache
def rpc_shapes() -> tuple[type[msgspec.Struct], ...]:
    """Return every body that nodes send each other, by name."""
    shapes = {shape for method in rpc_methods() for shape in (method.request, method.reply)}
    return tuple(sorted(shapes, key=lambda each: each.__name__))


def rpc_message(data: bytes) -> None:
    """A header of a node link, its last item read as the body that the first byte names."""
    shapes = rpc_shapes()
    shape = shapes[data[0] % len(shapes)] if data else shapes[0]
    items = decode_header(data[1:])
    for item in items[1:3]:
        number(item)
    body = parse_body(items[-1], shape)
    (again,) = decode_header(encode_header(0, body_builtins(body)))[1:]
    assert encode_header(body_builtins(parse_body(again, shape))) == encode_header(again)


def rpc_handshake(data: bytes) -> None:
    """Headers that come before a link is trusted, each behind its length; the first byte says what we know, and our role.

    Its bits: 0 we dial; 1 by the format with epochs; 2 directory "two" is retired; 3 the cluster is at level 1.
    """
    flags = data[0] if data else 0
    retired = frozenset({TWO}) if flags & 4 else frozenset[DirectoryId]()
    formats = (FORMAT_VERSION,) if flags & 8 else (FORMAT_WITHOUT_EPOCHS, FORMAT_VERSION)
    handshake = Handshake(
        Role.DIALER if flags & 1 else Role.ACCEPTOR,
        LinkIdentity(REPLICA, "c", b"secret"),
        b"\1" * NONCE_BYTES,
        dialled_node=NodeId(2) if flags & 1 else None,
        known=KnownReplicas({NodeId(2): KnownReplica(TWO)}, retired, formats),
        link_format=FORMAT_VERSION if flags & 10 else FORMAT_WITHOUT_EPOCHS,
    )
    handshake.start()
    position = 1
    while position < len(data) and handshake.peer is None:
        stop = position + 1 + data[position]
        items = decode_header(data[position + 1 : stop])
        if handshake.receive(items):
            _check_taken(items, retired, formats)
        position = stop
    assert handshake.peer is None, "nothing here knows the secret"


def _check_taken(hello: list[object], retired: Set[DirectoryId], formats: Sequence[int]) -> None:
    """Only a hello is answered here: of a format that counts, and, of a broker that is in the cluster, not retired."""
    _, link_format, cluster_id, _, directory_id, *_ = hello
    assert link_format in formats
    assert cluster_id in ("c", None)
    assert cluster_id is None or directory_id not in retired


def raft_entries(data: bytes) -> None:
    """The payload of an append; behind an odd first byte all checksums are right."""
    payload = sealed_entries(data[1:]) if data[:1] and data[0] & 1 else data[1:]
    request = AppendEntriesRequest("g", 3, 0, 0, 0, 0, flush=True)
    entries = parse_run(request, memoryview(payload))
    assert sum(entry.size for entry in entries) == len(payload)
    due = 1
    for entry in entries:
        assert entry.index == due
        due = entry.last_index + 1


def snapshot_chunk(data: bytes) -> None:
    """A chunk of a snapshot behind its request, whose length is the second byte; an odd first byte seals it."""
    flags, length = (data[0], data[1]) if len(data) > 1 else (0, 0)
    request = parse_body(decode_header(data[2 : 2 + length])[-1], InstallSnapshotRequest)
    chunk = payload = data[2 + length :]
    if flags & 1:
        # A checksum covers the position: the bounds come first, here as there.
        check_snapshot_chunk(request, memoryview(bytes(4) + chunk if is_sealed(request) else chunk))
        payload = bytes(seal_chunk(request, chunk))
    check_snapshot_chunk(request, memoryview(payload))
    opened = open_chunk(request, payload)
    assert opened == chunk or not flags & 1
    assert opened is None or len(opened) == chunk_size(request, payload)
