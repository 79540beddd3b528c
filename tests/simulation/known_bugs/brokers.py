"""Bugs in who may be in the cluster (RFC 0020)."""

from collections.abc import Mapping, Set

import pytest

from cluster.members_table import MembersTable
from model.ids import DirectoryId, NodeId
from rpc.identity import KnownReplica
from rpc.links import Links


def retired_directories_are_linked(patch: pytest.MonkeyPatch) -> None:
    """A broker that was removed is spoken with, as one of which nobody has heard yet."""
    know = Links.set_known_replicas

    def known(links: Links, replicas: Mapping[NodeId, KnownReplica], retired: Set[DirectoryId] = frozenset()) -> None:
        know(links, replicas)

    patch.setattr(Links, "set_known_replicas", known)


def epochs_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    """A node may come with any directory that it ever had: links compare no epochs, and know no retired directory."""
    patch.setattr(Links, "set_known_replicas", lambda *_: None)


def removed_brokers_register(patch: pytest.MonkeyPatch) -> None:
    """A broker that is in the cluster no longer is taken for one that starts again, by links and by raft0."""
    patch.setattr(Links, "set_known_replicas", lambda *_: None)
    patch.setattr(MembersTable, "check_admitted", lambda *_: None)
