"""Bugs planted in the handshake: what the tests of epochs and of retired directories are there to find."""

from dataclasses import replace

import pytest
from rpc_nodes import identity
from test_handshake import living, shaken

from model.ids import DirectoryId
from rpc.errors import HandshakeRefusedError, RefusalCode
from rpc.handshake import Handshake
from rpc.identity import Epoch, KnownReplica

_CHECK = Handshake._check_directory


def _epochs_are_not_compared(handshake, theirs):
    """Whoever says that it was admitted is believed, though a later epoch of that node is known."""
    known = handshake._known
    forgotten = {node: each._replace(epoch=Epoch(-1, 0)) for node, each in known.by_node.items()}
    handshake._known = known._replace(by_node=forgotten)
    _CHECK(handshake, theirs)


def _retired_directories_count(handshake, theirs):
    """A directory that is retired is taken for any other one."""
    handshake._known = handshake._known._replace(retired=frozenset())
    _CHECK(handshake, theirs)


def _the_former_directory_of_a_node_is_refused():
    """It was replaced while this link was down, and its old disk has come back."""
    former = replace(identity(1), epoch=Epoch(0, 3))
    knows = living(n1=KnownReplica(DirectoryId("another"), Epoch(0, 10)))
    with pytest.raises(HandshakeRefusedError) as caught:
        shaken(former, identity(2), knows)
    assert caught.value.refusal is RefusalCode.WRONG_DIRECTORY


def _a_retired_directory_is_refused():
    """Its node has no other directory yet: only the list of retired ones says that it is over."""
    who = identity(1)
    with pytest.raises(HandshakeRefusedError, match="retired") as caught:
        shaken(who, identity(2), living(retired=[who.replica.directory_id]))
    assert caught.value.refusal is RefusalCode.WRONG_DIRECTORY


BUGS = {
    "epoch not compared": (_epochs_are_not_compared, _the_former_directory_of_a_node_is_refused),
    "retired directory counted": (_retired_directories_count, _a_retired_directory_is_refused),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_directory_that_counts_no_more_is_refused(bug):
    BUGS[bug][1]()


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_lets_it_in(bug, monkeypatch):
    plant, refused = BUGS[bug]
    monkeypatch.setattr(Handshake, "_check_directory", plant)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        refused()
