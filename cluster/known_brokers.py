"""Whom this node's links reach, and which directories they take: raft0's members table, or what was last stored of it.

While the cluster is at level 0 of `raftka.membership`, the seeds are all brokers, and nothing is stored. From level 1
on links follow the table (RFC 0020): its addresses are dialled, and directories that are retired, or older than the one
that the table has, are refused. A copy is kept in the kvstore. It is used until raft0 has been read. That there is one
says that the links need epochs.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from cluster.feature_table import FeatureTable
from cluster.founding_words import ClusterRecord, Seed, addresses
from cluster.members_table import Member, MembersTable
from model.error_text import reason_of
from model.features import BROKERS_LEVEL, MEMBERSHIP
from model.ids import DirectoryId, Index, NodeId
from rpc.identity import Address, Epoch, KnownReplica
from rpc.links import Links
from runtime.gate import Gate
from storage.errors import KvStoreError
from storage.kvstore import KvStore

_logger = logging.getLogger("cluster")
_KEY = "node/brokers"


class _Broker(msgspec.Struct, frozen=True, array_like=True):
    node_id: int
    directory_id: str
    epoch: tuple[int, int]
    host: str
    port: int


class _Stored(msgspec.Struct, frozen=True):
    format_version: int
    brokers: list[_Broker]
    retired: list[str]
    # How far raft0 was applied, at least, when this was so: what is read again after a restart is older.
    applied_index: int = 0


class KnownBrokers:
    """See the module.

    Args:
        links: Are told.
        kvstore: Holds the copy.
        seeds: Where to dial brokers of which nothing else is known.
    """

    def __init__(self, links: Links, kvstore: KvStore, seeds: Sequence[Seed]) -> None:
        self._links = links
        self._kvstore = kvstore
        self._seeds: Mapping[NodeId, Address] = addresses(seeds)
        self._gate = Gate("known-brokers")
        stored = kvstore.get(_KEY)
        self._stored = None if stored is None else msgspec.json.decode(stored, type=_Stored)

    @property
    def is_living(self) -> bool:
        """Whether brokers have come and gone by raft0's word: the seeds are only whom to ask."""
        return self._stored is not None

    def start(self, cluster: ClusterRecord | None, features: Mapping[str, int]) -> None:
        """Tell the links what is known before raft0 is read.

        Args:
            cluster: Where this node is; None: in none yet.
            features: The highest level of each feature that this node has.
        """
        if self._stored is not None:
            self._tell(self._stored)
            return
        if cluster is None and features.get(MEMBERSHIP, 0) >= BROKERS_LEVEL:
            # The other seeds are of the same version, as a rule. Those that are founded may refuse the older format.
            self._links.prefer_epochs()
        self._links.set_peers(self._seeds)
        if cluster is not None:
            self.know_founders(cluster)

    def know_founders(self, cluster: ClusterRecord) -> None:
        """Take the directories of the founders, where nothing newer is known."""
        self._links.prefer_epochs(is_preferred=cluster.features.get(MEMBERSHIP, 0) >= BROKERS_LEVEL)
        if self._stored is None:
            self._links.set_known_replicas(
                {replica.node_id: KnownReplica(replica.directory_id) for replica in cluster.replicas}
            )

    def know_joined(self, brokers: Sequence[Seed]) -> None:
        """Take the addresses of a cluster that this node has just joined, until raft0 says more."""
        self._links.set_peers({**self._seeds, **addresses(brokers)})
        self._links.require_epochs()

    def follow(self, members: MembersTable, features: FeatureTable, applied_index: Callable[[], Index]) -> None:
        """Follow raft0's table from now on.

        After a restart the table begins with raft0's snapshot, and then goes through what came after it. Until it is as
        new as what is stored, the stored addresses and directories count. By older ones brokers might not reach each
        other, and then raft0 would never be read on.

        Args:
            members, features: The tables.
            applied_index: How far they are applied, at least.
        """

        def look() -> None:
            if self._stored is not None and applied_index() < self._stored.applied_index:
                return
            told = [broker.features.get(MEMBERSHIP, 0) for broker in members.all()]
            if told and min(told) >= BROKERS_LEVEL:
                self._links.prefer_epochs()
            if features.level(MEMBERSHIP) >= BROKERS_LEVEL:
                self._take(members, applied_index())

        members.add_listener(look)
        features.add_listener(look)
        look()

    async def stop(self) -> None:
        """Store nothing more."""
        await self._gate.close()

    def _take(self, members: MembersTable, applied_index: Index) -> None:
        before = {} if self._stored is None else {each.node_id: (each.host, each.port) for each in self._stored.brokers}
        brokers = [
            _Broker(member.node_id, member.replica.directory_id, member.epoch, *self._address(member, before))
            for member in members.admitted()
            if not members.is_retired(member)
        ]
        stored = _Stored(1, brokers, sorted(members.retired), applied_index)
        if self._stored is not None and msgspec.structs.replace(self._stored, applied_index=applied_index) == stored:
            return
        self._stored = stored
        self._tell(stored)
        self._kvstore.put(_KEY, msgspec.json.encode(stored))
        self._gate.spawn(self._sync(), name="store")

    def _address(self, member: Member, before: Mapping[int, tuple[str, int]]) -> tuple[str, int]:
        """Return where a broker is: as it has told raft0, or as was known before, or as the seeds say."""
        if member.rpc_port:
            return member.rpc_host, member.rpc_port
        seed = self._seeds.get(member.node_id, Address("", 0))
        return before.get(int(member.node_id), (seed.host, seed.port))

    def _tell(self, stored: _Stored) -> None:
        self._links.require_epochs()
        self._links.set_known_replicas(
            {
                NodeId(each.node_id): KnownReplica(DirectoryId(each.directory_id), Epoch(*each.epoch))
                for each in stored.brokers
            },
            frozenset(map(DirectoryId, stored.retired)),
        )
        self._links.set_peers(
            {NodeId(each.node_id): Address(each.host, each.port) for each in stored.brokers if each.port}
        )

    async def _sync(self) -> None:
        try:
            await self._kvstore.sync()
        except KvStoreError as error:
            # The kvstore's own listener ends the broker; what is not stored is learned from raft0 again.
            _logger.error("the addresses of the brokers are not stored: %s", reason_of(error))
