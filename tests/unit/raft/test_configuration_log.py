"""Which configuration is in force, and its bytes in the log and in a snapshot."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.ids import DirectoryId, Index, NodeId, Replica
from raft.configuration_entry import decode_configuration, encode_configuration
from raft.configuration_log import ConfigurationLog
from raft.group_configuration import GroupConfiguration, Revision
from storage.errors import CorruptEntryError, UnknownFormatError


def replica(node):
    return Replica(NodeId(node), DirectoryId(f"d{node}"))


def voters(*nodes, revision=0):
    return GroupConfiguration((tuple(map(replica, nodes)),), (), Revision(0, revision))


BASE, SECOND, THIRD = voters(1, 2, 3), voters(2, 3, 4, revision=5), voters(4, 5, revision=8)


def test_the_newest_in_the_log_is_in_force_and_a_truncation_brings_the_former_back():
    changes = []
    log = ConfigurationLog(BASE)
    log.on_change = lambda: changes.append(log.in_force)
    log.note(Index(10), SECOND)
    assert (log.in_force, log.index, log.is_committed) == (SECOND, 10, False)
    log.truncate(Index(11))
    assert log.in_force is SECOND
    log.truncate(Index(10))
    assert (log.in_force, log.is_committed) == (BASE, True)
    assert changes == [SECOND, BASE]


def test_one_is_committed_with_its_entry():
    log = ConfigurationLog(BASE)
    log.note(Index(10), SECOND)
    log.commit(Index(9))
    assert not log.is_committed
    log.commit(Index(10))
    assert log.is_committed


def test_a_snapshot_gets_what_was_in_force_at_its_index():
    log = ConfigurationLog(BASE)
    log.note(Index(10), SECOND)
    log.note(Index(20), THIRD)
    log.commit(Index(20))
    assert log.changed_until(Index(9)) is None
    assert log.changed_until(Index(10)) == SECOND
    assert log.changed_until(Index(19)) == SECOND
    assert log.changed_until(Index(20)) == THIRD
    assert log.in_force == THIRD


def test_a_restored_snapshot_is_the_base_of_what_follows():
    log = ConfigurationLog(BASE)
    log.note(Index(30), THIRD)
    log.restore(Index(15), SECOND)
    assert (log.in_force, log.is_committed) == (SECOND, True)
    # Replayed: what the snapshot includes is skipped.
    log.note(Index(10), THIRD)
    assert log.in_force == SECOND
    log.note(Index(30), THIRD)
    assert (log.in_force, log.is_committed) == (THIRD, False)
    log.truncate(Index(16))
    assert log.in_force == SECOND


def test_a_restored_snapshot_without_a_configuration_has_the_first_one():
    log = ConfigurationLog(BASE)
    log.note(Index(30), THIRD)
    log.restore(Index(40), None)
    assert log.in_force == BASE
    assert log.changed_until(Index(40)) is None


_NODES = st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True)


@given(_NODES, _NODES, st.booleans(), st.integers(0, 2**40), st.integers(0, 2**62))
def test_what_is_written_is_read(first, second, is_joint, generation, index):
    sets = (tuple(map(replica, first)), tuple(map(replica, second)))[: 1 + is_joint]
    learners = tuple(replica(node) for node in range(10, 13))
    configuration = GroupConfiguration(sets, learners, Revision(generation, index))
    assert decode_configuration(encode_configuration(configuration)) == configuration
    assert decode_configuration(memoryview(encode_configuration(configuration))) == configuration


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(payload):
    with contextlib.suppress(CorruptEntryError, UnknownFormatError):
        decode_configuration(payload)


@pytest.mark.parametrize(
    ("items", "error", "words"),
    [
        ([2, "whatever"], UnknownFormatError, "format 2"),
        ([], CorruptEntryError, "without a format"),
        (["1"], CorruptEntryError, "without a format"),
        ([1, [0, 0], [], []], CorruptEntryError, "0 voter sets"),
        ([1, [0, 0], [[]], []], CorruptEntryError, "a voter set is empty"),
        ([1, [0, -1], [[[1, "a"]]], []], CorruptEntryError, "revision 0.-1"),
        ([1, [0, 0], [[[1, "a"]], [[1, "b"]]], []], CorruptEntryError, "on one node"),
        ([1, [0, 0], [[[1, "a"]]]], CorruptEntryError, "cannot be read"),
    ],
)
def test_what_cannot_be_in_force_is_refused(items, error, words):
    with pytest.raises(error, match=words):
        decode_configuration(msgspec.msgpack.encode(items))
