"""One replica as seen from outside: what its log has held, for as long as its process lives."""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cluster.producer_batch import is_marker, is_transactional
from cluster.transactions.records import StoredTransaction, decode_record
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC
from model.control_batch import Marker, decode_marker
from model.ids import GroupId, Replica
from model.key_value_batch import read_key_values
from raft.configuration_entry import decode_configuration
from raft.consensus import Consensus
from raft.group_configuration import GroupConfiguration
from raft.replica_state import Role
from storage.entry import _KINDS, HEADER, HEADER_BYTES, Entry, EntryKind
from storage.errors import CorruptLogError
from storage.log import Log
from storage.log_start import LogStart, decode_log_start
from storage.segment import Segment, scan
from tests.simulation.world.sim_disk import ObservedFile

# Bytes of a chain.
CHAIN_BYTES = 12

_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43
_FACTS = struct.Struct(">qqbqq")


class Ghost(NamedTuple):
    """What identifies an entry on every replica. `chain` covers it and everything before it.

    `producer` is the batch's producer id, epoch and first sequence number, where it has them; `size` is the payload's,
    in bytes; `command` is what a command of raft0 says, `configuration` what the members are from there on. A `marker`
    ends a transaction; `is_transactional` says that a batch belongs to one. `stored` is what an entry of a coordinator
    sets: transactional ids and their states, None for one that is deleted.
    """

    index: int
    term: int
    kind: EntryKind
    base_offset: int
    record_count: int
    content: bytes
    chain: bytes
    start: LogStart | None = None
    producer: tuple[int, int, int] | None = None
    size: int = 0
    command: bytes | None = None
    configuration: GroupConfiguration | None = None
    marker: Marker | None = None
    is_transactional: bool = False
    stored: tuple[tuple[str, StoredTransaction | None], ...] = ()


def voter_sets_of(configuration: GroupConfiguration) -> tuple[frozenset[Replica], ...]:
    """Return each voter set."""
    return tuple(frozenset(voters) for voters in configuration.voter_sets)


def may_follow(former: Sequence[frozenset[Replica]], new: Sequence[frozenset[Replica]]) -> bool:
    """Whether one step leads from voter sets to others (RFC 0019 section 3): in only by a joint configuration."""
    if len(former) == len(new):
        # Only learners and the revision are others.
        return len(new) == 1 and former[0] == new[0]
    return former[0] == new[0] if len(new) == 2 else new[0] in former


def content_key(payload: bytes | bytearray | memoryview) -> bytes:
    """Identify a batch whatever offset and epoch the leader stamped on it; the batch's own CRC covers these bytes."""
    return hashlib.blake2b(memoryview(payload)[21:], digest_size=12).digest()


def chain_of(entry: Entry, before: bytes) -> bytes:
    """Return the chain of an entry that follows the chain `before`."""
    facts = _FACTS.pack(entry.index, entry.term, entry.kind, entry.base_offset, entry.record_count)
    return hashlib.blake2b(b"".join((before, facts, entry.payload)), digest_size=CHAIN_BYTES).digest()


def ghost_of(entry: Entry, before: bytes, *, is_coordinators: bool = False) -> Ghost:
    """Return the ghost of an entry that follows the chain `before`, in a log of `__transaction_state` or another one."""
    content, producer, marker, is_in_transaction = b"", None, None, False
    stored: tuple[tuple[str, StoredTransaction | None], ...] = ()
    if entry.kind is EntryKind.DATA:
        content, producer = content_key(entry.payload), _PRODUCER.unpack_from(entry.payload, _PRODUCER_AT)
        if producer[0] >= 0 and is_marker(entry.payload):
            producer, marker = None, decode_marker(entry.payload)
        elif producer[0] >= 0:
            is_in_transaction = is_transactional(entry.payload)
        if is_coordinators:
            stored = tuple(decode_record(each) for each in read_key_values(entry.payload))
    start = decode_log_start(entry.payload) if entry.kind is EntryKind.LOG_START else None
    facts = (entry.index, entry.term, entry.kind, entry.base_offset, entry.record_count)
    producer = producer if producer and producer[0] >= 0 else None
    command = bytes(entry.payload) if entry.kind is EntryKind.COMMAND else None
    configuration = decode_configuration(entry.payload) if entry.kind is EntryKind.CONFIGURATION else None
    return Ghost(
        *facts,
        content,
        chain_of(entry, before),
        start,
        producer,
        len(entry.payload),
        command,
        configuration,
        marker,
        is_in_transaction,
        stored,
    )


@dataclass(slots=True)
class Standing:
    """The positions of a replica after one step of its node."""

    role: Role
    term: int
    commit: int
    visible: int
    last: int
    flushed: int
    truncations: int
    in_office: bool
    start: LogStart

    @classmethod
    def of(cls, consensus: Consensus) -> "Standing":
        state, log = consensus.state, consensus.log
        return cls(
            state.role,
            state.term,
            state.commit_index,
            state.visible_index,
            log.dirty_index,
            log.flushed_index,
            log.truncations,
            state.is_in_office,
            log.start,
        )


@dataclass(slots=True)
class ReplicaView:
    """A replica in one life of its process; `entries[i]` has index i + 1.

    Below the log's start it holds what the group has committed there: nothing else can ever have been.

    Attributes:
        configured: The entries of configurations, oldest first.
        compacted: Of what was taken last, the entries up to the log's mark as they are now: passes may have changed them.
        broken_at: The first entry that the log was opened with although its bytes are broken and nothing has rotted.
    """

    node_id: int
    life: int
    group: GroupId
    consensus: Consensus
    now: Standing
    # What the group has committed; it grows.
    committed: list[Ghost]
    entries: list[Ghost] = field(default_factory=list)
    configured: list[Ghost] = field(default_factory=list)
    compacted: list[Entry] = field(default_factory=list)
    broken_at: int | None = None
    # Of the configuration that they were asked for last: each step asks for them again.
    _voter_sets: tuple[GroupConfiguration | None, tuple[frozenset[Replica], ...]] = (None, ())

    def at(self, index: int) -> Ghost | None:
        """Return the entry at an index, None if the log does not hold it."""
        return self.entries[index - 1] if 1 <= index <= len(self.entries) else None

    @property
    def configuration(self) -> GroupConfiguration:
        """The newest configuration in the log, by its entries: the one that is in force."""
        found = self.configured[-1].configuration if self.configured else None
        return found or self.consensus.state.configurations._created_with

    def configuration_before(self, index: int) -> GroupConfiguration:
        """Return the configuration that was in force when the entry at `index` was appended."""
        before = [each.configuration for each in self.configured if each.index < index]
        return (before[-1] if before else None) or self.consensus.state.configurations._created_with

    @property
    def name(self) -> str:
        """What people call its partition: `orders-0`."""
        return self.consensus.name

    def _ghost_of(self, entry: Entry) -> Ghost:
        """Return the ghost of the next entry."""
        is_coordinators = self.name.startswith(f"{TRANSACTIONS_TOPIC}-")
        return ghost_of(entry, self.chain_at(len(self.entries)), is_coordinators=is_coordinators)

    def _originals_of(self, entry: Entry) -> list[Ghost]:
        """Return the next entries, which `entry` stands for, as they were agreed.

        Log compaction changes what a log holds up to its mark, and nothing of what was agreed there (RFC 0022). The mark
        may be ahead of what is agreed with this log: with a leader's state it rises before the leader's entries come.
        """
        following, log = len(self.entries) + 1, self.consensus.log
        assert entry.index <= following <= entry.last_index
        originals = self.committed[following - 1 : entry.last_index]
        is_agreed = len(originals) == entry.last_index - following + 1 and originals[-1].term == entry.term
        if entry.last_index <= log.compacted_index and is_agreed:
            self.compacted.append(entry)
            return originals
        assert entry.index == entry.last_index, "what was compacted is not committed"
        return [self._ghost_of(entry)]

    @property
    def replica(self) -> Replica:
        """Its node and its data directory: with another directory the node has another replica."""
        return self.consensus.state.self_replica

    @property
    def voter_sets(self) -> tuple[frozenset[Replica], ...]:
        """Each voter set in force."""
        configuration = self.configuration
        if self._voter_sets[0] is not configuration:
            self._voter_sets = configuration, voter_sets_of(configuration)
        return self._voter_sets[1]

    def find_configurations(self) -> None:
        """Look for configurations in all of the log: it was opened or cut."""
        self.configured = [ghost for ghost in self.entries if ghost.configuration is not None]

    def chain_at(self, index: int) -> bytes:
        """Return the chain of an index, empty at 0."""
        return self.entries[index - 1].chain if index > 0 else b""

    def read_back(self, former: "ReplicaView | None") -> None:
        """Take what a log that was just opened holds, from its files.

        A closed segment may have rotted without anybody knowing yet: for the replica it still holds what it held.
        """
        log = self.consensus.log
        self.entries = self.committed[: log.start_index - 1]
        for segment in log._segments:
            inode = log._context.env.files.inode(segment.path)
            assert inode is not None
            try:
                for _, parsed in scan(segment.view()._replace(file=ObservedFile(inode))):
                    if parsed.entry.index <= len(self.entries) + 1 <= parsed.entry.last_index:
                        self.entries += self._originals_of(parsed.entry)
            except CorruptLogError:
                if not inode.has_rotted and self.broken_at is None:
                    self.broken_at = len(self.entries) + 1
                assert former is not None
                self.entries += former.entries[len(self.entries) : segment.last_index]
        self.find_configurations()

    @property
    def is_refilling(self) -> bool:
        """Damage took entries, and they are not all back."""
        return self.consensus.state.is_refilling

    def may_hold_less_than(self, former: "ReplicaView") -> bool:
        """Whether entries of the former life may be gone: by damage, or because a snapshot has taken their place."""
        before = min(self.now.start.index - 1, len(former.entries))
        return self.is_refilling or self.chain_at(before) != former.chain_at(before)

    def take_appended(self) -> list[Ghost]:
        """Take what was appended since the last step."""
        log: Log = self.consensus.log
        first = len(self.entries) + 1
        run = log._tail.read(first, log.dirty_index, 1 << 40) or list(_written(log, first))
        assert run[-1].last_index == log.dirty_index
        new = []
        for entry in run:
            ghosts = self._originals_of(entry)
            self.entries += ghosts
            new += ghosts
        self.configured += [ghost for ghost in new if ghost.configuration is not None]
        return new

    def written(self, first: int, last: int) -> list[Entry]:
        """Return the entries of [first, last], of which none was compacted, as far as they can be read."""
        log = self.consensus.log
        found: list[Entry] = []
        try:
            for entry in log._tail.read(first, last, 1 << 40) or _written(log, first):
                if entry.index > last:
                    break
                found.append(entry)
        except CorruptLogError:
            # What has rotted is not known.
            pass
        return found

    def entries_of(self, segment: Segment) -> list[Entry]:
        """Return what a segment holds, none if it has rotted; its file has the name under which it was opened.

        Checksums are not looked at: who compares the bytes needs none, and this runs with each swap.
        """
        inode = self.consensus.log._context.env.files.inode(segment.file.path)
        if inode.has_rotted:
            return []
        data, position, found = bytes(inode.data[: segment.size]), 0, []
        while position < len(data):
            _, length, index, term, kind, _, _, count, base_offset, _, _ = HEADER.unpack_from(data, position)
            body = position + HEADER_BYTES
            position = body + length
            found.append(Entry(index, term, _KINDS[kind], base_offset, count, data[body:position]))
        return found

    def __str__(self) -> str:
        now = self.now
        return (
            f"{self.group} n{self.node_id}.{self.life} t{now.term} {now.role.value}"
            f" [commit {now.commit} visible {now.visible} flushed {now.flushed} last {now.last}]"
        )


def _written(log: Log, first: int) -> Iterator[Entry]:
    """Yield entries from `first` on out of the files: what is written has left a small tail cache again."""
    for segment in log._segments.holding(first):
        view = segment.view(segment.index.position_of_index(first))
        inode = log._context.env.files.inode(segment.path)
        for _, parsed in scan(view._replace(file=ObservedFile(inode))):
            if parsed.entry.index >= first:
                yield parsed.entry
