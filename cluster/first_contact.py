"""What a broker with an empty data directory asks before it writes anything there (RFC 0020).

An empty directory may be the mount point of a disk that is not mounted. So it gets no file until a seed has said that
this broker may be in the cluster, or that there is no cluster yet. Seeds that start together answer each other here.
"""

from cluster.data_directory import read_identity
from cluster.errors import StartupError
from cluster.joining import Joining, JoinRequest, Joins
from cluster.known_brokers import KnownBrokers
from cluster.node_options import NodeOptions
from model.features import told_features
from model.ids import DirectoryId, Replica
from rpc.identity import LinkIdentity
from rpc.links import Links
from rpc.options import LinkOptions
from runtime.environment import Environment
from runtime.workers import Pool
from storage.memory_kvstore import MemoryKvStore

_TIMEOUT = 5.0


class FirstContact:
    """See the module. `joining` is there while the seeds are asked."""

    def __init__(self, env: Environment, options: NodeOptions) -> None:
        self._env = env
        self._options = options
        self.joining: Joining | None = None

    async def make(self) -> None:
        """Return once this broker may write to its directory: at once where it has an identity, or has no other seeds.

        Raises:
            RefusedDirectoryError: The node id is in the cluster with another data directory.
            PermanentStartupError: The cluster does not take this broker, or its identity file is damaged.
            StartupError: The directory is no longer the one at its path.
            OSError: The rpc address cannot be bound, or the disk refuses.
        """
        env, options = self._env, self._options
        others = [seed for seed in options.seeds if seed.node_id != options.node_id]
        if not others:
            return
        identity = await env.workers.run(Pool.READ, lambda: read_identity(env, options.data_dir))
        if identity is not None:
            return
        # It is told on a link that may do nothing else, and never used again.
        replica = Replica(options.node_id, DirectoryId(env.rng.randbytes(16).hex()))
        links = Links(env, LinkIdentity(replica, None, options.secret), LinkOptions(source_host=options.rpc_host))
        Joins(links, lambda: False)
        try:
            await links.start(options.rpc_host, options.rpc_port)
            features = told_features(options.features)
            KnownBrokers(links, MemoryKvStore(env, {}), options.seeds).start(None, features)
            address = options.rpc_host, options.rpc_port
            request = JoinRequest(*replica, *address, features, is_question=True, timeout=_TIMEOUT)
            self.joining = Joining(links, others, request)
            await self.joining.run()
        finally:
            await links.close()
        # That may have taken hours: meanwhile its disk may have been mounted over the directory that is held open.
        if not await env.workers.run(Pool.READ, env.files.is_in_place):
            raise StartupError(
                f"data directory {options.data_dir} was moved, removed or mounted over while this broker waited for a"
                " seed; nothing was written: start it again"
            )
