"""Links follow raft0's table of brokers, and what was stored of it until that table is as new."""

import asyncio

from cluster.commands import AdmitBroker, BrokerRecord, SetFeature
from cluster.controller_tables import ControllerTables
from cluster.founding_words import Seed, found
from cluster.known_brokers import KnownBrokers
from model.features import MEMBERSHIP, told_features
from model.ids import DirectoryId, Index, NodeId, Replica
from model.topic_config import TopicConfig
from runtime.environment import system_environment
from storage.memory_kvstore import MemoryKvStore
from tests.feature_levels import LIVING

FOUNDERS = tuple(Replica(NodeId(node), DirectoryId(f"d{node}")) for node in (1, 2))
SEEDS = [Seed(1, "seed1", 1), Seed(2, "seed2", 2)]


class HeldLinks:
    """What the links are told."""

    def __init__(self):
        self.peers, self.known, self.retired, self.needs_epochs, self.prefers = {}, {}, frozenset(), False, False

    def set_peers(self, peers):
        self.peers = {int(node): (address.host, address.port) for node, address in peers.items()}

    def set_known_replicas(self, known, retired=frozenset()):
        self.known, self.retired = known, retired

    def require_epochs(self):
        self.needs_epochs = True

    def prefer_epochs(self, *, is_preferred=True):
        self.prefers = is_preferred


class Life:
    """One process on the same kvstore."""

    def __init__(self, durable, features=None):
        self.links = HeldLinks()
        self.tables = ControllerTables(TopicConfig(), LIVING, FOUNDERS)
        self.applied = 0
        self.known = KnownBrokers(self.links, MemoryKvStore(system_environment(), durable), SEEDS)
        self.known.start(None, features or {})
        self.known.follow(self.tables.members, self.tables.features, lambda: Index(self.applied))

    def apply(self, command):
        self.tables.apply(command, Index(self.applied + 1))
        self.applied += 1


def record(node, port):
    return BrokerRecord(*(node, f"d{node}", "k", 9092, f"r{node}", port, "a", 9644), told_features(LIVING))


def test_below_level_1_the_seeds_are_all_peers_and_nothing_is_stored():
    async def test():
        durable = {}
        life = Life(durable)
        assert life.links.peers == {1: ("seed1", 1), 2: ("seed2", 2)}
        assert not durable
        assert not life.links.needs_epochs

    asyncio.run(test())


def test_who_has_the_feature_dials_by_the_newer_format_until_a_cluster_is_founded_without_it():
    async def test():
        assert not Life({}).links.prefers
        members = {1: "d1", 2: "d2"}
        for levels, prefers in (({}, False), ({MEMBERSHIP: 1}, True)):
            life = Life({}, {MEMBERSHIP: 1})
            assert life.links.prefers
            life.known.know_founders(found(members, [levels]))
            assert life.links.prefers == prefers

    asyncio.run(test())


def test_an_older_table_after_a_restart_changes_no_address():
    async def test():
        durable = {}
        life = Life(durable)
        life.apply(SetFeature(MEMBERSHIP, 1))
        life.apply(AdmitBroker(3, "d3", "r3", 30))
        old = b"".join(life.tables.encode())
        at = life.applied
        for port in (31, 32, 33):
            life.apply(AdmitBroker(3, "d3", "r3", port))
        await asyncio.sleep(0)  # The copy is put at once; the task that syncs it has begun.
        assert life.links.peers[3] == ("r3", 33)
        await life.known.stop()

        again = Life(durable)
        assert again.links.peers[3] == ("r3", 33)
        assert again.links.needs_epochs
        steps = again.tables.decode(old)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                again.tables.replace(end.value)
                break
        assert again.links.peers[3] == ("r3", 33)
        again.applied = at
        for port in (31, 32, 33, 34):
            again.apply(AdmitBroker(3, "d3", "r3", port))
            assert again.links.peers[3][1] >= 33 or port < 33
        assert again.links.peers[3] == ("r3", 34)
        await again.known.stop()

    asyncio.run(test())
