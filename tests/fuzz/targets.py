"""What is fed with anything at all. A target is a plain function of bytes; its first bytes choose among variants.

It returns, or raises one of its named errors; everything else is a finding, a failed assertion too: what was read must
be consistent with itself, read alike however the bytes came, and lie within the input.
"""

import tempfile
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar, cast
from unittest.mock import patch

import crc32c
import msgspec

from cluster.commands import decode_command, encode_command
from cluster.controller_tables import ControllerTables
from cluster.data_directory import read_identity, write_record
from cluster.errors import PermanentStartupError
from cluster.producer_batch import read_sequence, read_timestamp
from cluster.producer_table import ProducerOptions, ProducerTable
from kafka_api.protocol.codec import decode_request, decode_request_header, decode_response, encode_request
from kafka_api.protocol.errors import InvalidFrameSizeError, ProtocolError
from kafka_api.protocol.framing import FrameSplitter
from model.ids import GroupId, Offset
from model.key_scan import KeyScan
from model.record_batch import HEADER_BYTES, MalformedBatchError, check_batch, read_header, stamp, stamp_append_time
from model.record_codec import CorruptRecordsError, record_positions, unpack, unpack_records
from model.record_filter import filtered_batch, keyed_records
from model.topic_config import TopicConfig
from raft.configuration_entry import decode_configuration, encode_configuration
from raftka.broker.admin_http import parse_number
from raftka.check import history_file
from raftka.check.errors import HistoryError
from raftka.check.history_file import read_lines
from raftka.check.lists.history import read_list_history
from raftka.check.lists.model import check_lists
from raftka.check.log.builder import read_log_history
from raftka.check.log.model import check_log
from raftka.check.operations import Txn
from raftka.check.register_history import read_register_history
from raftka.check.register_model import check_register
from rpc.errors import HandshakeRefusedError, MalformedBodyError, MalformedFrameError
from runtime.environment import Environment
from storage.aborted_rows import AbortedRows
from storage.errors import CorruptEntryError, CorruptLogError, StorageError
from storage.index_file import decode_index
from storage.log_start import decode_log_start
from storage.segment_index import SegmentIndex
from storage.snapshot_file import STATE_BYTES_MAX, decode_snapshot, encode_snapshot
from storage.snapshot_parts import read_parts
from tests.fuzz import link_samples, link_targets, log_directories, samples
from tests.fuzz.checksums import sealed_batch, sealed_body, sealed_parts
from tests.fuzz.pieces import pieces

# Small, so that an input of some hundred bytes holds frames of every size class.
KAFKA_FRAME_BYTES_MAX, KAFKA_SCRATCH_BYTES = 2048, 256
UNPACKED_BYTES_MAX = 4 * 1024 * 1024
HISTORY_CONFIGURATIONS_MAX = 2000

T = TypeVar("T")

GROUP = GroupId("g")


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that reads bytes.

    Attributes:
        read: Returns for what it takes, raises one of `errors` for what it refuses.
        samples: Inputs that it takes.
        memory_bytes: What a run may allocate at most, besides 64 bytes for each of the input.
    """

    read: Callable[[bytes], None]
    errors: tuple[type[Exception], ...]
    samples: Callable[[], list[bytes]]
    memory_bytes: int = 512 * 1024

    @property
    def name(self) -> str:
        """Its name on the command line and in the corpus."""
        return self.read.__name__

    def __call__(self, data: bytes) -> None:
        """Read, and take a named error for an answer."""
        with suppress(*self.errors):
            self.read(data)


# -- Kafka's wire


def kafka_frames(data: bytes) -> None:
    """Frames of the Kafka port; the first byte says how the stream was segmented."""
    stream = data[1:]
    expected, is_broken = [], False
    position = 0
    while position + 4 <= len(stream):
        length = int.from_bytes(stream[position : position + 4], "big", signed=True)
        is_broken = not 0 <= length <= KAFKA_FRAME_BYTES_MAX
        if is_broken or position + 4 + length > len(stream):
            break
        expected.append(stream[position + 4 : position + 4 + length])
        position += 4 + length
    splitter = FrameSplitter(KAFKA_FRAME_BYTES_MAX, scratch=memoryview(bytearray(KAFKA_SCRATCH_BYTES)))
    found: list[memoryview] = []
    try:
        for piece in pieces(stream, data[0] + 1 if data else 1):
            found += splitter.feed(piece)
            assert splitter.incomplete_bytes <= KAFKA_FRAME_BYTES_MAX
    except InvalidFrameSizeError:
        assert is_broken
        assert [bytes(frame) for frame in found] == expected[: len(found)]
        raise
    assert not is_broken
    assert [bytes(frame) for frame in found] == expected


def kafka_request(data: bytes) -> None:
    """One request frame, of whatever key and version it names; what was understood can be said again."""
    header = decode_request_header(data)
    assert 0 <= header.body_position <= len(data)
    message = decode_request(header.api_key, header.api_version, data, header.body_position)
    again = b"".join(encode_request(*header[:4], message))[4:]
    same = decode_request_header(again)
    assert same[:4] == header[:4]
    repeated = decode_request(same.api_key, same.api_version, again, same.body_position)
    # By its bytes: not even a NaN is another one there.
    assert b"".join(encode_request(*same[:4], repeated))[4:] == again


def kafka_response(data: bytes) -> None:
    """One response frame, behind key and version of what was asked (two bytes each): the client's direction."""
    key, version = int.from_bytes(data[:2], "big", signed=True), int.from_bytes(data[2:4], "big", signed=True)
    decode_response(key, version, data[4:])


# -- record batches


def record_batch(data: bytes) -> None:
    """A produced batch and its records; an odd first byte puts length, magic and CRC right."""
    batch = sealed_batch(data[1:]) if data[:1] and data[0] & 1 else data[1:]
    header = check_batch(batch)
    assert header.size == len(batch) >= HEADER_BYTES
    sequence = read_sequence(batch)
    if sequence is not None:
        assert sequence.record_count >= 1
        assert read_timestamp(batch) == header.max_timestamp
    stamped = bytearray(batch)
    stamp(stamped, 7, 3)
    stamp_append_time(stamped, 1_000)
    assert check_batch(stamped)[:3] == (7, header.batch_length, 3)
    records = unpack_records(batch, UNPACKED_BYTES_MAX)
    found = sum(1 for each in record_positions(header, records) if each.offset >= header.base_offset)
    assert found == header.record_count <= len(records)
    keyed = keyed_records(header, records)
    kept = [each for each in keyed if each.key is not None]
    if kept:
        # As a pass of log compaction would leave it.
        rebuilt = filtered_batch(batch, header, records, kept)
        left = list(keyed_records(read_header(rebuilt), unpack_records(rebuilt, UNPACKED_BYTES_MAX)))
        assert [each.key for each in left] == [each.key for each in kept]
    scan = KeyScan(header, records)
    while not scan.is_over:
        scan.advance(3)
    assert scan.keyless == [position for position, each in enumerate(keyed) if each.key is None]


def compressed(data: bytes) -> None:
    """Compressed records; the first byte is the codec."""
    records = unpack(data[0] % 8 if data else 0, memoryview(data)[1:], UNPACKED_BYTES_MAX)
    assert len(records) <= UNPACKED_BYTES_MAX


# -- files


def index_file(data: bytes) -> None:
    """An index file; behind an odd first byte its checksum is right."""
    record = decode_index(sealed_body(data[1:]) if data[:1] and data[0] & 1 else data[1:], GROUP, 1)
    if record is None:
        raise CorruptLogError("not used")
    index = SegmentIndex.from_columns(record.columns, record.size, record.max_timestamp, 4096)
    rows = AbortedRows.from_columns(record.rows)
    assert rows.columns() == record.rows
    for wanted in (0, 1, record.last_index, record.end_offset, -(2**63), 2**63 - 1):
        index.position_of_index(wanted)
        index.position_of_offset(wanted)
        index.position_of_timestamp(wanted)
        index.max_timestamp_before(wanted)
        assert all(each.first_offset < wanted for each in rows.within(Offset(0), Offset(wanted)))
    rows.cut(Offset(record.end_offset))
    assert rows.lowest >= -(2**63)


def snapshot_file(data: bytes) -> None:
    """A snapshot file; behind an odd first byte its checksum is right."""
    content = sealed_body(data[1:]) if data[:1] and data[0] & 1 else data[1:]
    snapshot = decode_snapshot(content, "snapshot")
    assert snapshot.flaw() is None
    assert decode_snapshot(encode_snapshot(snapshot), "snapshot") == snapshot


def identity_file(data: bytes) -> None:
    """The file that says whose a data directory is; behind an odd first byte its checksum is right."""
    content = data[1:]
    if data[:1] and data[0] & 1:
        content = f"{crc32c.crc32c(content):08x} ".encode() + content
    files = log_directories.disk_with({"directory.id": content})
    env = cast(Environment, SimpleNamespace(files=files))
    record = read_identity(env, log_directories.DIRECTORY)
    assert record is not None
    write_record(env, log_directories.DIRECTORY, record)
    assert read_identity(env, log_directories.DIRECTORY) == record


def state_parts(data: bytes) -> None:
    """A snapshot file in parts; bit 0 of the first byte puts all checksums right, the others say how large parts are."""
    flags = data[0] if data else 0
    content = sealed_parts(data[1:]) if flags & 1 else data[1:]
    ends: list[int] = []

    def read(size: int, position: int) -> bytes:
        assert size > 0
        assert position == (ends[-1] if ends else 0), "it is read from its beginning to its end"
        ends.append(position + size)
        assert ends[-1] <= len(content)
        return content[position : ends[-1]]

    header, state = read_parts(read, len(content), "snapshot", STATE_BYTES_MAX)
    assert ends[-1] == len(content)
    assert len(state) == header.state_bytes
    snapshot = decode_snapshot(content, "snapshot")
    assert snapshot.state == state
    if snapshot.configuration:
        assert decode_snapshot(encode_snapshot(snapshot, 1 + (flags >> 1)), "snapshot") == snapshot


def replica_state(data: bytes) -> None:
    """What snapshots and entries hold for the layers above the log; the first byte says which."""
    body = data[1:]
    match data[0] % 5 if data else 0:
        case 0:
            command = decode_command(body)
            assert decode_command(encode_command(command)) == command
        case 1:
            assert decode_log_start(body).flaw() is None
        case 2:
            table = ProducerTable(ProducerOptions())
            begun = _end_of(table.decode(body, 0))
            again = ProducerTable(ProducerOptions())
            assert _end_of(again.decode(b"".join(table.encode(begun)), 0)) == begun
        case 3:
            tables = ControllerTables(TopicConfig(), samples.OFFERED)
            tables.replace(_end_of(tables.decode(body)))
            list(ControllerTables(TopicConfig(), samples.OFFERED).decode(b"".join(tables.encode())))
        case 4:
            configuration = decode_configuration(body)
            assert decode_configuration(encode_configuration(configuration)) == configuration


def _end_of(steps: Generator[None, None, T]) -> T:
    """Return what a generator returns at its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


# -- what people send and keep


def admin_number(data: bytes) -> None:
    """A partition or a node id in a request to the admin port."""
    found = parse_number(data.decode(errors="surrogateescape"))
    if found is None:
        raise ValueError("no number")
    assert 0 <= found < 2**31


@cache
def _history_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="raftka-fuzz-")


def history(data: bytes) -> None:
    """A history for `raftka check`: bits 0 and 1 of the first byte are the model, the others the size of reads."""
    flags = data[0] if data else 0
    path = Path(_history_folder().name) / "history.jsonl"
    path.write_bytes(data[1:])
    with patch.object(history_file, "CHUNK_BYTES", 1 + (flags >> 2)):
        in_pieces = [line for _, lines in read_lines(path) for line in lines]
    whole = [line for _, lines in read_lines(path) for line in lines]
    assert msgspec.json.encode(in_pieces) == msgspec.json.encode(whole)
    # Whole transactions are judged as lists, whatever the bits say: so the corpus means what it meant.
    if any(isinstance(line, Txn) and line.ops is not None for line in whole):
        check_lists(read_list_history([path]))
    elif flags & 2:
        model = "cas" if flags & 1 else "register"
        check_register(read_register_history([path], has_cas=model == "cas"), model, HISTORY_CONFIGURATIONS_MAX)
    else:
        check_log(read_log_history([path]))


_LINK_ERRORS = (MalformedFrameError, MalformedBodyError, HandshakeRefusedError)

TARGETS = {
    target.name: target
    for target in (
        Target(kafka_frames, (ProtocolError,), samples.kafka_frames),
        Target(kafka_request, (ProtocolError,), samples.kafka_requests),
        Target(kafka_response, (ProtocolError,), samples.kafka_responses),
        Target(record_batch, (MalformedBatchError, CorruptRecordsError), samples.record_batches, 12 * 1024 * 1024),
        Target(compressed, (CorruptRecordsError,), samples.compressed, 12 * 1024 * 1024),
        Target(log_directories.log_directory, (StorageError,), samples.log_directories),
        Target(index_file, (CorruptLogError,), samples.index_files),
        Target(snapshot_file, (StorageError,), samples.snapshot_files),
        Target(identity_file, (PermanentStartupError,), samples.identity_files),
        Target(state_parts, (StorageError,), samples.state_parts),
        Target(replica_state, (CorruptLogError, CorruptEntryError), samples.replica_states),
        Target(link_targets.rpc_frames, _LINK_ERRORS, link_samples.rpc_frames),
        Target(link_targets.rpc_message, _LINK_ERRORS, lambda: link_samples.rpc_messages(link_targets.rpc_shapes())),
        Target(link_targets.rpc_handshake, _LINK_ERRORS, link_samples.rpc_handshakes),
        Target(link_targets.snapshot_chunk, _LINK_ERRORS, link_samples.snapshot_chunks),
        Target(link_targets.raft_entries, _LINK_ERRORS, samples.raft_entries),
        Target(admin_number, (ValueError,), samples.admin_numbers),
        Target(history, (HistoryError,), samples.histories, 20 * 1024 * 1024),
    )
}
