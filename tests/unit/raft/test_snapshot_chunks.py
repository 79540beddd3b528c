"""A snapshot that is saved in parts travels in chunks with checksums; any other one as it always did."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.ids import Index, Offset, Term
from raft.append_dispatch import send_snapshot_chunk
from raft.configuration_entry import encode_configuration
from raft.group_configuration import GroupConfiguration
from raft.messages import AppendStatus, InstallSnapshotRequest
from raft.options import RaftOptions
from raft.replicate_item import NewEntry
from raft.service import check_snapshot_chunk
from raft.snapshot_chunks import chunk_size, open_chunk, seal_chunk
from rpc.errors import MalformedBodyError
from storage.entry import Entry
from storage.log_start import LogStart
from storage.snapshot_file import Snapshot, has_parts
from tests.unit.raft.message_wire import Message
from tests.unit.raft.test_reconfiguration import Group, replicas, target

CONFIGURATION = encode_configuration(GroupConfiguration.of(replicas(1, 2)))
START = LogStart(Index(7), Offset(9), Offset(11), Term(3))
CHUNK = 16
STATE = bytes(range(100, 153))


def request_of(position: int = 0, checksum: int = 77, configuration: bytes = CONFIGURATION) -> InstallSnapshotRequest:
    return InstallSnapshotRequest("g", 5, START, 9, 4, position, 1 << 20, checksum, configuration)


# -- the bytes of a chunk -------------------------------------------------------------------------------------------


def test_a_chunk_has_a_checksum_exactly_if_its_snapshot_is_saved_in_parts() -> None:
    for configuration in (b"", CONFIGURATION):
        request = request_of(configuration=configuration)
        snapshot = Snapshot(START, Index(9), Term(4), b"", configuration)
        assert (len(seal_chunk(request, b"chunk")) > 5) == has_parts(snapshot)


def test_a_chunk_of_format_1_travels_as_it_is() -> None:
    request = request_of(configuration=b"")
    assert seal_chunk(request, b"chunk") == b"chunk"
    assert open_chunk(request, b"chunk") == b"chunk"
    assert chunk_size(request, b"chunk") == 5


def test_the_request_of_format_1_begins_with_the_fields_that_it_always_had() -> None:
    names = ("group", "term", "start", "applied_index", "applied_term", "position", "size", "checksum", "configuration")
    assert InstallSnapshotRequest.__struct_fields__ == (*names, "compacted_index")
    fields = ["g", 5, [7, 9, 11, 3], 9, 4, 0, 1 << 20, 77, ""]
    assert msgspec.to_builtins(request_of(configuration=b"")) == [*fields, 0]


@pytest.mark.parametrize(
    "change", [lambda fields: fields[:-2], lambda fields: fields[:-1], lambda fields: [*fields, 7]]
)
def test_a_request_of_an_older_or_a_newer_version_is_read(change: Callable[[list[Any]], list[Any]]) -> None:
    request = request_of(configuration=b"")
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(request))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(change(fields)), type=InstallSnapshotRequest) == request


@given(st.binary(max_size=100), st.integers(0, 2**26), st.integers(0, 2**32 - 1))
def test_a_sealed_chunk_comes_back_and_no_flipped_bit_does(chunk: bytes, position: int, checksum: int) -> None:
    request = request_of(position, checksum)
    payload = bytes(seal_chunk(request, chunk))
    assert chunk_size(request, payload) == len(chunk)
    assert open_chunk(request, payload) == chunk
    for at in range(len(payload)):
        changed = bytearray(payload)
        changed[at] ^= 1 << at % 8
        assert open_chunk(request, bytes(changed)) is None
    # Where a CRC's register is 0, it does not see a 0 behind it; the length of a state is checked, too.
    if payload[:4] != b"\xff" * 4:
        assert open_chunk(request, payload + b"\0") is None
    assert open_chunk(request, payload[:-1]) is None


def test_a_chunk_is_refused_in_another_place_and_in_another_snapshot() -> None:
    payload = bytes(seal_chunk(request_of(), b"chunk"))
    assert open_chunk(request_of(position=16), payload) is None
    assert open_chunk(request_of(checksum=78), payload) is None


@pytest.mark.parametrize("size", range(5))
def test_a_payload_that_is_too_short_for_its_checksum_is_a_malformed_body(size: int) -> None:
    with pytest.raises(MalformedBodyError, match="install_snapshot of g: "):
        check_snapshot_chunk(request_of(), memoryview(bytes(size)))
    check_snapshot_chunk(request_of(), memoryview(bytes(5)))


# -- between replicas -----------------------------------------------------------------------------------------------


class FixedState:
    """The same bytes on every replica, until others are installed."""

    def __init__(self) -> None:
        self.content = STATE

    def admit(self, entry: NewEntry) -> None:
        """Nothing is refused."""

    def note(self, entry: Entry) -> None:
        """Nothing is kept."""

    def truncate(self, first_removed: Index) -> None:
        """Nothing is kept."""

    def commit(self, index: Index) -> None:
        """Nothing is kept."""

    def snapshot(self) -> Iterator[bytes]:
        yield self.content

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        self.content = state
        yield

    def reset(self) -> None:
        self.content = b""


class Transfer:
    """Node 3 gets a snapshot of node 1; what reaches it, and what it answers."""

    def __init__(self, group: Group, change: Callable[[int, bytes], bytes]) -> None:
        self.chunks: list[tuple[int, int]] = []
        self.answers: list[AppendStatus] = []
        self._change = change
        self._hand_over = group.hand_over
        group.hand_over = self.hand_over

    def hand_over(self, message: Message) -> None:
        if isinstance(message.request, InstallSnapshotRequest):
            if message.reply is None:
                message.payload = self._change(len(self.chunks), message.payload)
                self.chunks.append((message.request.position, len(message.payload)))
            else:
                self.answers.append(message.reply.status)
        self._hand_over(message)


def run_transfer(change: Callable[[int, bytes], bytes], *, has_moved: bool = True) -> tuple[Transfer, int]:
    """Let a replica that was away get a snapshot; return what was sent and how many were found damaged."""
    with Group(5, 1, 2, 3, log_state=FixedState) as group:
        group.options = RaftOptions(recovery_chunk_bytes=CHUNK)
        group.begin(1, 1, 2, 3, 4)
        group.wire.is_cut[3] = True
        if has_moved:
            group.reach(target(1, 2, 4, 3))
        group.write(20)
        group.tick(2)
        leader = group.replica(1)
        group.move_start(1, leader.log.dirty_index, leader.log.next_offset - 1)
        group.tick(5)
        assert leader.log.start_index > 10
        transfer = Transfer(group, change)
        group.wire.is_cut[3] = False
        group.tick(30)
        assert group.replica(3).failure is None
        assert group.terms(3)[-1:] == group.terms(1)[-1:]
        probe = group.actors[3].probe
        assert probe.snapshots_installed == 1
        assert group.replica(3)._log_state._state.content == STATE
        return transfer, probe.snapshots_damaged


def flipped(number: int) -> Callable[[int, bytes], bytes]:
    """Flip one bit of one chunk."""

    def change(count: int, payload: bytes) -> bytes:
        return payload[:-1] + bytes([payload[-1] ^ 1]) if count == number else payload

    return change


def unchanged(count: int, payload: bytes) -> bytes:
    return payload


A, S, D = AppendStatus.ALIVE, AppendStatus.SUCCESS, AppendStatus.DAMAGED


def test_a_snapshot_in_parts_is_sent_in_sealed_chunks() -> None:
    transfer, damaged = run_transfer(unchanged)
    assert transfer.chunks == [(0, 20), (16, 20), (32, 20), (48, 9)]
    assert (transfer.answers, damaged) == ([A, A, A, S], 0)


def test_a_snapshot_of_format_1_is_sent_in_bare_chunks() -> None:
    transfer, damaged = run_transfer(unchanged, has_moved=False)
    assert transfer.chunks == [(0, 16), (16, 16), (32, 16), (48, 5)]
    assert (transfer.answers, damaged) == ([A, A, A, S], 0)


@pytest.mark.parametrize("number", range(4))
def test_a_chunk_that_is_damaged_on_the_way_ends_the_transfer_at_once(number: int) -> None:
    transfer, damaged = run_transfer(flipped(number))
    assert transfer.answers == [*[A] * number, D, A, A, A, S]
    assert damaged == 1


@pytest.mark.parametrize("number", range(4))
def test_a_damaged_chunk_of_format_1_is_found_when_all_have_come(number: int) -> None:
    transfer, damaged = run_transfer(flipped(number), has_moved=False)
    assert transfer.answers == [A, A, A, D, A, A, A, S]
    assert damaged == 1


def test_damage_in_the_memory_of_the_leader_is_found_when_all_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunk gets a right checksum: only that of the whole snapshot tells."""
    sent: list[int] = []

    def send(context: object, follower: object, request: InstallSnapshotRequest, chunk: bytes) -> object:
        sent.append(request.position)
        if len(sent) == 2:
            chunk = bytes([chunk[0] ^ 1]) + chunk[1:]
        return send_snapshot_chunk(context, follower, request, chunk)

    monkeypatch.setattr("raft.recovery_stm.send_snapshot_chunk", send)
    transfer, damaged = run_transfer(unchanged)
    assert transfer.answers == [A, A, A, D, A, A, A, S]
    assert damaged == 1


def test_damage_is_installed_if_neither_checksum_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    async def takes_it(request: InstallSnapshotRequest, snapshot: Snapshot) -> bool:
        return True

    monkeypatch.setattr("raft.snapshot_receiver._is_as_sent", takes_it)
    # The checksum of the chunk alone finds what happens on the way ...
    assert run_transfer(flipped(1))[1] == 1
    monkeypatch.setattr("raft.snapshot_receiver.open_chunk", lambda request, payload: payload[4:])
    # ... and without it nothing does.
    with pytest.raises(AssertionError):
        run_transfer(flipped(1))
