"""To which cluster this node belongs: the one that it remembers, or else one that it founds with the seeds or joins.

It tells the links of the node as soon as it knows.
"""

import logging

from cluster.directory_stamp import DirectoryStamp
from cluster.founding import FoundedElsewhereError, Founding
from cluster.founding_words import ClusterRecord
from cluster.joining import Joining, JoinRequest, Joins
from cluster.known_brokers import KnownBrokers
from cluster.node_options import NodeOptions
from cluster.registration import REGISTER_TIMEOUT
from model.features import told_features
from model.ids import Replica
from rpc.identity import Epoch
from rpc.links import Links
from storage.kvstore import KvStore

_logger = logging.getLogger("cluster")


class ClusterEntry:
    """See the module.

    Args:
        links: To the other brokers; not yet started.
        kvstore: Remembers the cluster.
        replica: This node and its data directory.
        options: What the node is told.
        stamp: Marks the data directory.

    Attributes:
        founding: How the seeds found the cluster.
        known_brokers: Whom the links reach.
        joins: Answers the brokers that want to join.
        joining: Asks the seeds to let this node join; None: it has not had to.
    """

    def __init__(
        self, links: Links, kvstore: KvStore, replica: Replica, options: NodeOptions, stamp: DirectoryStamp
    ) -> None:
        self._links = links
        self._replica = replica
        self._options = options
        self._stamp = stamp
        self._features = told_features(options.features)
        founding = self.founding = Founding(links, kvstore, replica, options.seeds, self._features, stamp)
        # From the stamp on, an older version must not speak with this broker any more.
        stamp.add_listener(links.require_epochs)
        if stamp.is_stamped:
            links.require_epochs()
        self.known_brokers = KnownBrokers(links, kvstore, options.seeds)
        self.joins = Joins(links, lambda: founding.is_founded)
        self.joining: Joining | None = None

    def recall(self) -> ClusterRecord | None:
        """Return the cluster that this node remembers; None: it is in none yet.

        Raises:
            StartupError: It remembers one in which it must not start.
        """
        cluster = self.founding.recall(is_living=self.known_brokers.is_living)
        if cluster is not None:
            self._stamp.check_version(self._features)
            self._tell_links(cluster)
        return cluster

    async def found_or_join(self) -> ClusterRecord:
        """Return the cluster that this node has founded with the other seeds, or has joined; its links have started.

        Raises:
            StartupError, StorageError: This node must not start; the message says the cure.
        """
        if self.founding.is_seed:
            try:
                cluster = await self.founding.found()
            except FoundedElsewhereError as error:
                _logger.info("%s: it asks to join", error)
            else:
                self._tell_links(cluster)
                return cluster
        options = self._options
        address = options.rpc_host, options.rpc_port
        request = JoinRequest(*self._replica, *address, self._features, is_question=False, timeout=REGISTER_TIMEOUT)
        self.joining = Joining(self._links, options.seeds, request)
        reply = await self.joining.run()
        assert reply.cluster is not None
        await self.founding.remember(reply.cluster)
        _logger.info("joined cluster %s as node %d", reply.cluster.cluster_id, options.node_id)
        self._tell_links(reply.cluster)
        self.known_brokers.know_joined(reply.brokers)
        return reply.cluster

    def _tell_links(self, cluster: ClusterRecord) -> None:
        self._links.set_epoch(Epoch(*cluster.epoch))
        # Links are made anew once this node has a cluster id: by the format that all founders have.
        self.known_brokers.know_founders(cluster)
        self._links.set_cluster_id(cluster.cluster_id)
