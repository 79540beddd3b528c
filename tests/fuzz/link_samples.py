"""Valid inputs of the targets that read what nodes send each other: `samples` has those of all others."""

from collections.abc import Callable, Sequence

import cbor2
import msgspec

from model.ids import DirectoryId, Index, NodeId, Offset, Replica, Term
from raft.configuration_entry import encode_configuration
from raft.messages import InstallSnapshotRequest
from raft.snapshot_chunks import seal_chunk
from rpc.codec import HELLO, PROOF, REFUSED, body_builtins, encode_header
from rpc.framing import chunk_head, encode_frame
from rpc.handshake import FORMAT_VERSION, FORMAT_WITHOUT_EPOCHS, NONCE_BYTES, Handshake, KnownReplicas, Role
from rpc.identity import LinkIdentity
from storage.log_start import LogStart
from tests.fuzz.samples import configurations


def rpc_frames() -> list[bytes]:
    """Small frames, a large one, and one in chunks that another passes."""
    small = encode_frame(encode_header(0, 1, 2, ["g", 3]), [b"payload"])
    large = encode_frame(encode_header(1, 1, [1]), [b"x" * 40_000])
    chunked = encode_frame(encode_header(1, 2, [2]), [b"y" * 300])
    passed = chunk_head(100) + chunked[:100] + small + chunk_head(len(chunked) - 100) + chunked[100:]
    streams = [small * 3, large + small, passed + small]
    return [bytes([flags]) + stream for stream in streams for flags in (0, 1, 9)]


def rpc_messages(shapes: Sequence[type[msgspec.Struct]]) -> list[bytes]:
    """A request with a body of each shape."""
    return [bytes([place]) + encode_header(0, 1, 2, _body(shape)) for place, shape in enumerate(shapes)]


def _body(shape: type[msgspec.Struct]) -> object:
    return body_builtins(msgspec.convert(_array(msgspec.inspect.type_info(shape)), shape, builtin_types=(bytes,)))


def _array(kind: msgspec.inspect.Type) -> object:
    """Return the plainest value of a type that bodies use, lists with one element."""
    match kind:
        case msgspec.inspect.StructType():
            fields = {field.encode_name: _array(field.type) for field in kind.fields}
            return list(fields.values()) if kind.array_like else fields
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return [_array(kind.item_type)]
        case msgspec.inspect.TupleType():
            return [_array(each) for each in kind.item_types]
        case msgspec.inspect.DictType():
            return {}
        case msgspec.inspect.UnionType():
            return _array(kind.types[0])
        case msgspec.inspect.EnumType():
            return next(iter(kind.cls)).value
        case _:
            plain: dict[type, Callable[[], object]] = {
                msgspec.inspect.IntType: lambda: 5,
                msgspec.inspect.StrType: lambda: "g",
                msgspec.inspect.BoolType: lambda: True,
                msgspec.inspect.BytesType: lambda: b"b",
                msgspec.inspect.FloatType: lambda: 1.5,
                msgspec.inspect.NoneType: lambda: None,
            }
            return plain[type(kind)]()


def rpc_handshakes() -> list[bytes]:
    """What comes before a proof, at either end, in both formats."""
    hellos = []
    for link_format in (FORMAT_WITHOUT_EPOCHS, FORMAT_VERSION):
        theirs = Handshake(
            Role.DIALER,
            LinkIdentity(Replica(NodeId(2), DirectoryId("two")), "c", None),
            b"\2" * NONCE_BYTES,
            dialled_node=NodeId(1),
            known=KnownReplicas({}),
            link_format=link_format,
        )
        hellos += theirs.start()
    hellos.append(encode_header(HELLO, FORMAT_WITHOUT_EPOCHS, None, 2, "two", b"\2" * NONCE_BYTES))
    hellos.append(encode_header(HELLO, FORMAT_VERSION, None, 2, "two", b"\2" * NONCE_BYTES, 0, 0, 7))
    # An acceptor takes both formats, a dialer the one that it has begun with.
    pairs = [(0, hello) for hello in hellos] + [(1, hellos[0]), (3, hellos[1]), (1, hellos[2]), (3, hellos[3])]
    # At level 1: who has joined anew, before and after its old directory was retired, and who asks to join.
    anew = encode_header(HELLO, FORMAT_VERSION, "c", 2, "three", b"\2" * NONCE_BYTES, 0, 0, 7)
    pairs += [(flags, anew) for flags in (3, 8, 12)] + [(12, hellos[3])]
    return [bytes([flags, len(header)]) + header for flags, header in pairs]


def refused_handshakes() -> list[bytes]:
    """What ends a handshake: a false proof, and a refusal."""
    hello = rpc_handshakes()[0]
    endings = (encode_header(PROOF, b"\3" * 32), encode_header(REFUSED, 3, "no"), cbor2.dumps([7]))
    return [hello + bytes([len(header)]) + header for header in endings]


def snapshot_chunks() -> list[bytes]:
    """The first chunk and the last one of a snapshot in parts, sealed and yet to be sealed; one of format 1; no bytes."""
    start = LogStart(Index(3), Offset(2), Offset(2), Term(1))
    state = bytes(range(40))
    found = []
    for configuration in (b"", *map(encode_configuration, configurations())):
        for position, chunk in ((0, state[:25]), (25, state[25:]), (0, b"")):
            size = len(state) if chunk else 0
            request = InstallSnapshotRequest("g", 3, start, 3, 1, position, size, 77, configuration)
            header = encode_header(0, 1, 4, body_builtins(request))
            found += [bytes([0, len(header)]) + header + bytes(seal_chunk(request, chunk))]
            found += [bytes([1, len(header)]) + header + chunk]
    return found
