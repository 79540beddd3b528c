"""Valid inputs of each target, the first bytes that choose a variant included: where damage begins. Always the same."""

import random
import struct
from collections.abc import Sequence

import cramjam
import crc32c
import msgspec

from cluster.commands import (
    AdmitBroker,
    AllocateProducerIds,
    AlterBrokerConfigs,
    AlterPlacements,
    AlterTopicConfigs,
    BrokerRecord,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    FinishPlacement,
    PlacementRecord,
    RegisterBroker,
    RemoveBroker,
    ReplicaRecord,
    RetireDirectory,
    SetBrokerState,
    SetFeature,
    encode_command,
)
from cluster.controller_tables import ControllerTables
from cluster.data_directory import DirectoryRecord
from cluster.producer_batch import BatchSequence
from cluster.producer_table import PlacedBatch, PlacedMark, ProducerOptions, ProducerTable
from cluster.transactions.open_transactions import Transaction
from kafka_api.protocol.codec import encode_request, encode_response, versions
from kafka_api.protocol.schema.message_schema import Direction, api_keys, schema_of
from model.control_batch import Prepare
from model.features import MEMBERSHIP, LevelRange
from model.ids import DirectoryId, Index, NodeId, Offset, Replica, Term
from model.topic_config import TopicConfig
from raft.configuration_entry import encode_configuration
from raft.group_configuration import GroupConfiguration, Revision
from storage.compacted_mark import COMPACTED_NAME
from storage.entry import Entry, pack_header
from storage.index_file import FORMAT_VERSION as INDEX_FORMAT_VERSION
from storage.index_file import CleanedTime, IndexRecord, encode_index
from storage.log_start import LogStart, encode_log_start
from storage.placeholder import placeholder
from storage.segment_index import TermStart
from storage.snapshot_file import Snapshot, encode_snapshot
from tests.fuzz import log_directories as directories
from tests.unit.check.stories import Story
from tests.unit.kafka_api.protocol.random_messages import random_message
from tests.unit.model.record_batches import GZIP, LZ4, SNAPPY, ZSTD, build_batch, packed, record, xerial
from tests.unit.storage.log_harness import Spec, barrier, ends, entries_after

_CODECS = (0, GZIP, SNAPPY, LZ4, ZSTD)
_RECORDS = b"".join(record(b"value" * 9, offset_delta=number, timestamp_delta=number) for number in range(3))


# -- Kafka's wire


def _message_versions(keys: Sequence[int]) -> list[tuple[int, int]]:
    return [(key, version) for key in keys for version in range(versions(key)[0], versions(key)[1] + 1)]


def _request(key: int, version: int) -> bytes:
    message = random_message(schema_of(key, Direction.REQUEST), version, random.Random(key * 100 + version))
    return b"".join(encode_request(key, version, 7, "fuzz", message))


def kafka_requests() -> list[bytes]:
    """One frame for each version of each request that is known."""
    return [_request(key, version)[4:] for key, version in _message_versions(api_keys())]


def kafka_responses() -> list[bytes]:
    """One frame for each version of each response that is known."""
    found = []
    for key, version in _message_versions(api_keys()):
        message = random_message(schema_of(key, Direction.RESPONSE), version, random.Random(key * 100 + version))
        frame = b"".join(encode_response(key, version, 7, message))[4:]
        found.append(struct.pack(">hh", key, version) + frame)
    return found


def kafka_frames() -> list[bytes]:
    """Streams of small and large frames, one of them cut short."""
    requests = b"".join(_request(key, 4) for key in (18, 3, 19))[:3000]
    large = b"".join(struct.pack(">i", size) + b"x" * size for size in (0, 1, 64, 65, 500, 2048))
    whole = [requests[: _whole_frames(requests)], large, struct.pack(">i", 9) + b"123"]
    return [bytes([flags]) + stream for flags in (0, 5, 200) for stream in whole]


def _whole_frames(stream: bytes) -> int:
    position = 0
    while position + 4 <= len(stream):
        stop = position + 4 + int.from_bytes(stream[position : position + 4], "big")
        if stop - position > 2052 or stop > len(stream):
            break
        position = stop
    return position


# -- record batches


def record_batches() -> list[bytes]:
    """Batches of every codec, of an idempotent producer, and of one record."""
    values = (b"a" * 50, b"", b"value")
    batches = [build_batch(*values, codec=codec) for codec in _CODECS]
    batches.append(build_batch(b"x", producer_id=5, producer_epoch=1, base_sequence=2**31 - 1))
    batches.append(build_batch(payload=bytes(cramjam.snappy.compress_raw(record(b"x" * 99))), codec=SNAPPY))
    return [bytes([flags]) + batch for batch in batches for flags in (0, 1)]


def compressed() -> list[bytes]:
    """Records behind every codec; snappy both ways."""
    found = [bytes([codec]) + packed(codec, _RECORDS) for codec in _CODECS]
    found.append(bytes([SNAPPY]) + bytes(cramjam.snappy.compress_raw(_RECORDS)))
    found.append(bytes([SNAPPY]) + xerial([_RECORDS[:50], b"", _RECORDS[50:]]))
    return found


# -- files


def _entries(first_index: int, offset: int, specs: Sequence[Spec]) -> list[Entry]:
    return entries_after(first_index - 1, offset, specs)


def _segment(entries: Sequence[Entry]) -> bytes:
    return b"".join(pack_header(each, Index(each.index - 1)) + bytes(each.payload) for each in entries)


def _two_segments() -> tuple[list[Entry], list[Entry]]:
    first = _entries(1, 0, [barrier(1), Spec(records=2)])
    return first, _entries(3, 2, [Spec(records=3, size=70), Spec(size=5)])


def _placeholder() -> Entry:
    """For the first of the two segments."""
    return placeholder(Index(1), Index(2), Term(1), Offset(0), Offset(2))


def _compacted() -> bytes:
    body = b'{"format_version":1,"index":2}'
    return f"{crc32c.crc32c(body):08x} ".encode() + body + b"\n"


def _snapshot(index: int = 3) -> Snapshot:
    offset = Offset(2)
    return Snapshot(LogStart(Index(index), offset, offset, Term(1)), Index(index), Term(1), b"state" * 9)


def _index_record() -> IndexRecord:
    content = _segment(_two_segments()[0])
    columns = [struct.pack("<q", each) for each in (2, 0, -1, 56)]
    terms = [TermStart(Index(1), Term(1), Offset(0))]
    return IndexRecord(INDEX_FORMAT_VERSION, "g", 1, len(content), 2, 2, 1000, 5, 6, 1, terms, *columns)


def _with_rows() -> IndexRecord:
    """As if two transactions had been aborted in the segment."""
    rows = [struct.pack("<qq", *each) for each in ((7, 9), (0, 0), (0, 1))]
    names = ("producers", "firsts", "markers")
    return msgspec.structs.replace(_index_record(), **dict(zip(names, rows, strict=True)))


def log_directories() -> list[bytes]:
    """One segment, several, with index files, with markers, with a snapshot, and one that grew ahead of what was written."""
    first, second = (_segment(each) for each in _two_segments())
    third = _segment(_entries(5, 6, [barrier(2), Spec(term=2)]))
    one, two, three, first_index, _, snapshot = directories.NAMES[:6]
    index, state = encode_index(_index_record()), encode_snapshot(_snapshot())
    markers = _segment(_entries(3, 2, [ends(7, 0), ends(9, 1)]))
    removed = pack_header(_placeholder(), Index(0)) + bytes(_placeholder().payload)
    stories: list[tuple[dict[str, bytes], bool]] = [
        ({one: removed, two: second}, False),
        ({one: first, two: second, snapshot: state[:-1] + b"!", COMPACTED_NAME: _compacted()}, False),
        ({one: first}, False),
        ({one: first, two: second, three: third}, False),
        ({one: first + bytes(300)}, False),
        ({one: first, two: second, first_index: index}, True),
        ({one: first, two: second, first_index: encode_index(_with_rows())}, True),
        ({one: first, two: markers}, False),
        ({two: second, snapshot: state}, True),
        ({one: first, two: second, snapshot: state}, True),
    ]
    found = []
    for files, has_checksum in stories:
        # What is to be sealed is without its checksum.
        bare = {name: content if name.endswith(".log") else content[4:] for name, content in files.items()}
        found += [directories.packed_files(flags, bare) for flags in (1, 3, 5)]
        found += [directories.packed_files(0, files)] if has_checksum else []
    return found


def index_files() -> list[bytes]:
    """One of each format that is read, with its checksum and without."""
    format_2 = encode_index(msgspec.structs.replace(_index_record(), format_version=2))
    found = []
    times = [CleanedTime(Index(1), 5), CleanedTime(Index(2), 6)]
    cleaned = encode_index(msgspec.structs.replace(_with_rows(), cleaned_to=9, cleaned_times=times))
    for whole in (encode_index(_index_record()), encode_index(_with_rows()), format_2, cleaned):
        found += [b"\x00" + whole, b"\x01" + whole[4:]]
    return found


def snapshot_files() -> list[bytes]:
    """One of each format, with its checksum and without."""
    of_format_1 = _snapshot()
    of_format_2 = msgspec.structs.replace(of_format_1, configuration=encode_configuration(configurations()[1]))
    found = []
    for whole in map(encode_snapshot, (of_format_1, of_format_2)):
        found += [b"\x00" + whole, b"\x01" + whole[4:]]
    return found


def identity_files() -> list[bytes]:
    """One of each format, with checksums and without."""
    found = []
    for version, levels in ((1, {}), (2, {}), (3, {MEMBERSHIP: 1, "f": 2})):
        body = msgspec.json.encode(DirectoryRecord(version, 3, "ab" * 16, levels))
        found += [b"\x01" + body, b"\x00" + f"{crc32c.crc32c(body):08x} ".encode() + body + b"\n"]
    return found


def state_parts() -> list[bytes]:
    """States in no part, in one and in several, with their checksums and without."""
    configuration = encode_configuration(configurations()[0])
    found = []
    for size, part in ((0, 1), (9, 100), (40, 16), (48, 16), (5, 1)):
        state = bytes(range(size))
        snapshot = msgspec.structs.replace(_snapshot(), state=state, configuration=configuration)
        whole = encode_snapshot(snapshot, part)
        found += [bytes([part << 1]) + whole, b"\x01" + bytes(4) + whole[4:]]
    return found


def configurations() -> list[GroupConfiguration]:
    """A simple one, and a joint one with a learner."""
    one, two, three = (Replica(NodeId(node), DirectoryId(f"d{node}")) for node in (1, 2, 3))
    return [
        GroupConfiguration.of((one, two)),
        GroupConfiguration(((one, two), (two,)), (three,), Revision(1, 77)),
    ]


# What the tables of these samples can work at.
OFFERED = {"f": LevelRange(0, 1), MEMBERSHIP: LevelRange(0, 1)}
FOUNDERS = tuple(Replica(NodeId(node), DirectoryId(f"d{node}")) for node in (1, 2, 3))


def replica_states() -> list[bytes]:
    """Every command, a log start, a table of producers, the tables of raft0."""
    placement = [[ReplicaRecord(1, "d1"), ReplicaRecord(2, "d2")]]
    commands = [
        RegisterBroker(BrokerRecord(1, "d1", "k", 9092, "r", 33145, "a", 9644)),
        CreateTopic("t", "a" * 32, placement, {"min.insync.replicas": "2"}),
        CreatePartitions("a" * 32, 1, placement),
        AlterTopicConfigs("a" * 32, {"retention.ms": "5"}),
        AllocateProducerIds(0, 1000),
    ]
    features = {"f": 1, MEMBERSHIP: 1}
    raised = [
        *(
            RegisterBroker(BrokerRecord(node, f"d{node}", "k", 9092, "r", 33145, "a", 9644, features))
            for node in (1, 2, 3)
        ),
        SetFeature("f", 1, {1: features}),
        SetFeature(MEMBERSHIP, 1),
    ]
    altered = [
        AlterBrokerConfigs(None, {"log.retention.ms": "5"}),
        AlterBrokerConfigs(1, {"log.level": "DEBUG", "replica.lag.time.max.ms": "300"}),
    ]
    elsewhere = [ReplicaRecord(2, "d2"), ReplicaRecord(3, "d3")]
    moved = [
        AlterPlacements([PlacementRecord("a" * 32, 0, elsewhere), PlacementRecord("a" * 32, 1, elsewhere)]),
        FinishPlacement("a" * 32 + "/0", (0, 9)),
        AlterPlacements([PlacementRecord("a" * 32, 1, None)]),
        AlterPlacements([PlacementRecord("raft0", 0, elsewhere)]),
        FinishPlacement("raft0", (0, 12)),
        AlterPlacements([PlacementRecord("raft0", 0, elsewhere[:1])]),
    ]
    members = [
        AdmitBroker(4, "d4", "h4", 33145),
        SetBrokerState(2, "draining"),
        RetireDirectory(4, "d4"),
        AdmitBroker(4, "d5", "h4", 33146),
        RemoveBroker(4),
    ]
    producers, tables = ProducerTable(ProducerOptions()), ControllerTables(TopicConfig(), OFFERED, FOUNDERS)
    for number in range(3):
        producers.settle(PlacedBatch(BatchSequence(number, 0, 5, 9), 40, 7 + number, 2, 1000), 0)
    for command in commands:
        tables.apply(command)
    states = [
        (0, encode_command(command))
        for command in (*commands, *raised, *altered, *moved, *members, DeleteTopic("a" * 32))
    ]
    states.append((1, encode_log_start(_snapshot().start)))
    states += [(4, encode_configuration(each)) for each in configurations()]
    states.append((2, b"".join(producers.encode())))
    producers.settle(PlacedMark(1, 3, 30, 2, 1001, Prepare(5, 6), 4), 0)
    begun = [Transaction(2, 0, Index(9), Offset(40), 1000)]
    states += [(2, b"".join(producers.encode(begun))), (3, b"".join(tables.encode()))]
    for later in (raised, altered, moved, members):
        for index, command in enumerate(later, start=9):
            tables.apply(command, Index(index))
        states.append((3, b"".join(tables.encode())))
    return [bytes([which]) + state for which, state in states]


# -- between nodes


def raft_entries() -> list[bytes]:
    """Entries of every length that follow each other."""
    first, second = _two_segments()
    third = _entries(5, 6, [barrier(2), Spec(term=2)])
    runs = (first, first + second + third, [_placeholder(), *second])
    return [bytes([flags]) + _segment(run) for run in runs for flags in (0, 1)]


# -- what people send and keep


def admin_numbers() -> list[bytes]:
    """Numbers as people write them."""
    return [b"0", b"7", b"2147483647", b"007"]


def histories() -> list[bytes]:
    """A log's history that is valid, one that is not, ones of registers and of transactions; in pieces and whole."""
    story = Story().send("a", 0).send("b", 1, acks="1").poll((0, "a"), hw=2).latest(2).fault("kill")
    story.add("seek", type="ok", proc=1, tp="t-0", off=0).send("c", type="info", ret=None)
    story.final((0, "a"), (1, "b"))
    lost = Story().send("a", 0).final()
    registers = (
        Story().add("write", type="ok", proc=1, key="k", **{"in": 1}).add("read", type="ok", proc=2, key="k", out=1)
    )
    cas = Story().add("cas", type="ok", proc=3, key="k", out=True, **{"in": [None, "x"]})
    marks = {"id": "p", "epoch": 1, "version": 4, "attempts": 2}
    transactions = Story().add("txn", type="ok", proc=5, txn="T", do="begin", **marks)
    transactions.send("a", 0, txn="T", of=["t-0", 3], group="g").poll((0, "a"), iso="read_committed", lso=0, txn="U")
    transactions.add("txn", type="info", proc=5, txn="T", do="commit", offsets={"t-0": 9}, group="g", **marks).final()
    lists = Story().add("txn", type="ok", proc=5, ops=[["append", "x", "a", 0], ["append", "y", "b", None]], asked=9)
    lists.add("txn", type="ok", proc=6, ops=[["read", "x", [[0, "a"], [2, "c"]]], ["read", "y", []]], final=True)
    both = [
        (0, story.lines),
        (0x40, story.lines),
        (0, lost.lines),
        (2, registers.lines),
        (3, registers.lines + cas.lines),
        (0, transactions.lines),
        (0, lists.lines),
    ]
    return [bytes([flags]) + b"\n".join(map(msgspec.json.encode, lines)) + b"\n" for flags, lines in both]
