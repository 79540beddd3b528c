"""How the seeds become a cluster, once (RFC 0001 section 4).

Every seed asks every other for its identity and its list of seeds, again and again, until all have answered with the
same list. Then each computes the same cluster id, a hash of the sorted node and directory ids, and writes it down; no
majority decides and nobody is first, so three brokers that are cut off from one another found nothing
(counterexample 22). A broker whose directory was wiped computes another id and is refused by the others.

They must also write down the same levels of features (RFC 0018 section 2), although a seed may be started in another
version meanwhile. Each tells what its version has as it asks and answers, and the last word counts. The levels are the
highest that all have. If there are any, the seed marks its directory with them (`directory_stamp`) and says so: it is
*bound* to them. `founders_levels` has the rules for what follows.

A disk may be replaced amid the founding. So a bound seed also says which cluster it would found, and founds once all
others would found the same one (RFC 0018 section 2). Of two seeds that found, each has asked the other one after its
own choice was made; so they have made the same one.

A seed that answers for a cluster without this broker ends the founding: the broker may join (`joining`).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from cluster.data_directory import MEMBERSHIP_LEVELS
from cluster.directory_stamp import DirectoryStamp
from cluster.errors import ClusterError, PermanentStartupError, RefusedDirectoryError, StartupError
from cluster.founders_levels import FounderLevels
from cluster.founding_words import FOUND, AnyWord, ClusterRecord, FoundReply, FoundRequest, Seed, SeedWord, found
from model.features import lacking, lowest_of
from model.ids import NodeId, Replica
from rpc.errors import SAID_BY_PEER, HandshakeRefusedError, RefusalCode, RpcError
from rpc.identity import FOUNDING_EPOCH, Peer
from rpc.links import Links
from storage.kvstore import KvStore

_logger = logging.getLogger("cluster")

_KEY = "node/cluster"
_ASK_PAUSE = 0.050
_ASK_TIMEOUT = 1.0
_REMIND_INTERVAL = 5.0


class FoundedElsewhereError(StartupError):
    """A seed belongs to a cluster that this broker has not founded: it may join."""


class Founding:
    """Answers other founders for ever, and founds or recalls this node's cluster at start.

    Args:
        links: To the other seeds.
        kvstore: Holds the record of the cluster.
        replica: This broker.
        seeds: As configured.
        features: The highest level of each feature that this broker has.
        stamp: Marks its data directory; None: nothing is marked, and levels are not agreed on.
    """

    def __init__(
        self,
        links: Links,
        kvstore: KvStore,
        replica: Replica,
        seeds: Sequence[Seed],
        features: Mapping[str, int] | None = None,
        stamp: DirectoryStamp | None = None,
    ) -> None:
        self._links = links
        self._kvstore = kvstore
        self._replica = replica
        self._seeds = sorted(seeds)
        self._features = dict(features or {})
        self._stamp = stamp
        self._cluster: ClusterRecord | None = None
        # By node id: the last word of each other seed that counts.
        self._answers: dict[int, AnyWord] = {}
        self._missing: list[Seed] = []
        self._why: dict[int, RpcError | ClusterError] = {}
        links.register(FOUND, self._on_found)

    def recall(self, *, is_living: bool = False) -> ClusterRecord | None:
        """Return the cluster this directory belongs to, None if it was never founded.

        Args:
            is_living: Brokers come and go by raft0's word, so the seeds are only whom to ask.

        Raises:
            PermanentStartupError: The configured seeds are not its members.
        """
        stored = self._kvstore.get(_KEY)
        if stored is None:
            return None
        cluster = msgspec.json.decode(stored, type=ClusterRecord)
        configured = self._seed_ids()
        members = [node for node, _ in cluster.members]
        # Who joined never founded anything, so its seeds were only whom to ask from the start.
        has_joined = tuple(cluster.epoch) != tuple(FOUNDING_EPOCH)
        if configured != members and not is_living and not has_joined:
            raise PermanentStartupError(
                f"the configured seeds are nodes {configured}, but this directory belongs to a cluster of nodes"
                f" {members}: name these; brokers are added once the cluster uses raftka.membership at level 1"
            )
        self._cluster = cluster
        return cluster

    async def found(self) -> ClusterRecord:
        """Wait until all seeds have answered with the same list, and write the cluster down.

        Raises:
            RefusedDirectoryError: A seed is founded and knows this node by another directory. Nothing is removed: the
                other node may be the one that is wrong.
            FoundedElsewhereError: A seed's cluster does not include this directory.
            StartupError: Another seed has another list.
        """
        assert self.is_seed, "who is not among its seeds founds nothing"
        # Who has founded it already may have been of another version then, and began with other levels.
        cluster = await self._until_founded() or await self._until_bound_alike()
        await self.remember(cluster)
        _logger.info("founded cluster %s of nodes %s", cluster.cluster_id, [node for node, _ in cluster.members])
        return cluster

    async def _until_founded(self) -> ClusterRecord | None:
        """Return once all seeds have said what they have; the cluster, if one of them has founded it.

        Raises:
            PermanentStartupError: This version has not what the seed is bound to.
        """
        if self._stamp is not None and not self._levels.is_usable:
            self._stamp.check_version(self._features)
        return await self._ask_all(
            lambda reply: reply.cluster is not None or self._levels.may_found_with(reply.word),
            until_founded=bool(self._levels.stamped),
        )

    async def _until_bound_alike(self) -> ClusterRecord:
        """Return the cluster once this seed and all others are bound to its levels and would found it.

        Or one of them has founded it.
        """
        while self._stamp is not None and (levels := self._record().features):
            await self._stamp.bind(levels)
            founded = await self._ask_all(self._is_bound_alike_or_lower, until_founded=True)
            if founded is not None:
                return founded
            if self._record().features == levels:
                break
        return self._record()

    async def _ask_all(self, counts: Callable[[AnyWord], bool], *, until_founded: bool = False) -> ClusterRecord | None:
        """Ask each other seed until its answer counts; return the cluster, if one of them has founded it.

        Args:
            counts: Whether an answer does.
            until_founded: Return once one has, though others have not answered.
        """
        founded: ClusterRecord | None = None
        waiting = self._other_seeds()
        loop = asyncio.get_running_loop()
        remind_at = loop.time() + _REMIND_INTERVAL
        while waiting and not (until_founded and founded is not None):
            for seed in list(waiting):
                reply = await self._ask(NodeId(seed.node_id))
                if reply is not None and self._is_news(self._checked(reply)):
                    # What the others have said, they have said of another cluster.
                    waiting = self._other_seeds()
                if reply is not None and counts(reply):
                    self._answers[reply.node_id] = reply
                    founded = founded or reply.cluster
                    waiting.remove(seed)
                elif reply is not None:
                    self._why[seed.node_id] = ClusterError("it answers, and is not ready to found the cluster")
                self._missing = list(waiting)
            if waiting:
                await asyncio.sleep(_ASK_PAUSE)
            if loop.time() >= remind_at:
                remind_at = loop.time() + _REMIND_INTERVAL
                _logger.warning("waiting for seeds %s to found the cluster", _shown(self._missing))
        return founded

    def _record(self) -> ClusterRecord:
        """Return the cluster by what the seeds have said last, and by what this one is bound to."""
        members = {node: reply.directory_id for node, reply in self._answers.items()}
        features = [self._levels.word, *(reply.word for reply in self._answers.values())]
        return found({int(self._replica.node_id): str(self._replica.directory_id), **members}, features)

    def _other_seeds(self) -> list[Seed]:
        return [seed for seed in self._seeds if seed.node_id != self._replica.node_id]

    @property
    def _would_found(self) -> str:
        """The id of the cluster that this seed would found; empty: not all others have answered."""
        return self._record().cluster_id if len(self._answers) == len(self._other_seeds()) else ""

    def _is_news(self, reply: AnyWord) -> bool:
        """Take another data directory of a seed than it had before; return whether all must be asked again.

        That is so, too, if a seed would found another cluster: one of the two has not heard of a directory yet.
        """
        before, own = self._answers.get(reply.node_id), self._would_found
        if before is not None and before.directory_id != reply.directory_id:
            self._answers[reply.node_id] = reply
            return True
        return bool(reply.bound) and "" not in (own, reply.would_found) and reply.would_found != own

    @property
    def _levels(self) -> FounderLevels:
        # In a cluster, nothing is founded any more.
        stamped = self._stamp.levels if self._stamp is not None and self._cluster is None else {}
        return FounderLevels(self._features, stamped)

    def _is_bound_alike_or_lower(self, reply: AnyWord) -> bool:
        """Whether an answer counts for a bound seed: it has the other's promise, or has to go down."""
        levels = self._levels
        has_promise = reply.bound == levels.stamped and self._wants_the_same(reply)
        return reply.cluster is not None or has_promise or levels.must_go_down_to(reply.word)

    def _wants_the_same(self, reply: AnyWord) -> bool:
        """Whether another seed would found the same cluster, at whatever levels."""
        return reply.would_found == self._would_found

    async def remember(self, cluster: ClusterRecord) -> None:
        """Write down which cluster this directory belongs to; before that mark it, if no older version may open it.

        Raises:
            PermanentStartupError: The founders have agreed on levels that this version does not have.
        """
        if self._stamp is not None:
            has_founded = tuple(cluster.epoch) == tuple(FOUNDING_EPOCH)
            if has_founded and (missing := lacking(cluster.features, self._features)):
                raise PermanentStartupError(
                    f"the other seeds have founded the cluster at {', '.join(missing)}, which this version does not"
                    " have: start a version that has it"
                )
            # Who joins may have less by now. raft0 says what is in force.
            await self._stamp.ensure(lowest_of(cluster.features, self._features))
        self._kvstore.put(_KEY, msgspec.json.encode(cluster))
        await self._kvstore.sync()
        self._cluster = cluster

    @property
    def is_seed(self) -> bool:
        """Whether this node is among its seeds, so that it founds a cluster with them."""
        return self._replica.node_id in self._seed_ids()

    @property
    def is_founded(self) -> bool:
        """Whether this directory belongs to a cluster."""
        return self._cluster is not None

    def unanswered(self) -> list[tuple[Seed, RpcError | ClusterError | OSError | None]]:
        """Return the seeds that `found` still waits for, each with the newest reason; None: there is none yet."""
        return [
            (seed, self._links.why_down(NodeId(seed.node_id)) or self._why.get(seed.node_id)) for seed in self._missing
        ]

    def _seed_ids(self) -> list[int]:
        return [seed.node_id for seed in self._seeds] or [int(self._replica.node_id)]

    async def _ask(self, node: NodeId) -> AnyWord | None:
        request = FoundRequest(self._replica.node_id, self._replica.directory_id, self._seeds, self._features)
        try:
            reply = await self._links.send(node, FOUND, request, timeout=_ASK_TIMEOUT)
        except RpcError as error:
            self._why[node] = error
            check_refused_directory(self._links, node, self._replica.node_id)
            return None  # Not up yet; asked again.
        # As `FOUND` reads it.
        assert isinstance(reply, AnyWord)
        return reply if reply.node_id == node else None

    def _checked(self, reply: AnyWord) -> AnyWord:
        mine = (int(self._replica.node_id), str(self._replica.directory_id))
        if reply.cluster is not None and mine not in reply.cluster.members:
            raise FoundedElsewhereError(
                f"node {reply.node_id} belongs to cluster {reply.cluster.cluster_id}, which does not know this data"
                f" directory as node {self._replica.node_id}"
            )
        if sorted(reply.seeds) != self._seeds:
            raise StartupError(
                f"node {reply.node_id} was configured with other seeds:"
                f" {_shown(reply.seeds)}, here {_shown(self._seeds)}"
            )
        return reply

    def _on_found(self, _: Peer, request: FoundRequest, __: memoryview) -> FoundReply:
        answer = self._answers.get(request.node_id)
        if answer is not None and answer.directory_id == request.directory_id and not self._levels.stamped:
            # It may have been started in another version since it has answered. Who is bound asks again.
            self._answers[request.node_id] = msgspec.structs.replace(answer, features=request.features)
        reply = (self._replica.node_id, self._replica.directory_id, self._seeds, self._cluster, self._features)
        bound = self._levels.bound
        if not bound:
            return FoundReply(*reply)
        if bound == MEMBERSHIP_LEVELS:
            return SeedWord(*reply, is_bound=True, would_found=self._would_found)
        return AnyWord(*reply, would_found=self._would_found, levels=dict(bound))


def check_refused_directory(links: Links, node: NodeId, self_node: int) -> None:
    """Give up where a broker knows this node by another directory, or a retired one: it would say so at every start.

    The directory holds nothing yet, so no broker that serves ends because of what another one says.

    Raises:
        RefusedDirectoryError: Broker `node` has refused the link for that.
    """
    why = links.why_down(node)
    if not isinstance(why, HandshakeRefusedError):
        return
    if why.is_of_own_retired_directory:
        # Whoever is asked says the same, with the cure.
        raise RefusedDirectoryError(why.message.removeprefix(SAID_BY_PEER))
    if why.by_peer and why.refusal is RefusalCode.WRONG_DIRECTORY:
        raise RefusedDirectoryError(
            f"node {node} refuses this data directory: it knows node {self_node} by another one;"
            f" name the original data directory of node {self_node} as data.dir, or bring it back; if it is lost, run"
            f" `raftka broker replace {self_node}`, then start this broker again"
        )


def _shown(seeds: Sequence[Seed]) -> str:
    return ",".join(f"{seed.node_id}@{seed.host}:{seed.port}" for seed in sorted(seeds))
