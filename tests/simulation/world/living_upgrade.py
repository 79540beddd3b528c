"""A rolling upgrade: brokers of two versions in one cluster, and then the level of the feature is raised (RFC 0018)."""

from random import Random

from cluster.admin_messages import UpdateFeatureRequest
from cluster.node import Node
from model.features import BROKERS_LEVEL, MEMBERSHIP
from tests.simulation.world.cluster import SimCluster
from tests.simulation.world.errand import Errand
from tests.simulation.world.living_brokers import UPGRADE, LivingBrokers
from tests.simulation.world.nemesis import Nemesis

_TIMEOUT = 5.0


class RollingUpgrade:
    """Starts each broker in the newer version, one after the other; one of them goes back once, as often as not.

    Args:
        cluster: Its brokers are of the older version.
        nemesis: Starts and ends brokers.
        brokers: Knows when the faults are over.
    """

    def __init__(self, cluster: SimCluster, nemesis: Nemesis, brokers: LivingBrokers) -> None:
        self._cluster = cluster
        self._nemesis = nemesis
        self._brokers = brokers
        self._pause = 0.0

    def begin(self, rng: Random) -> None:
        """Upgrade all, and raise the level."""
        steps = [(node_id, False) for node_id in rng.sample(list(self._cluster.older), len(self._cluster.older))]
        if rng.random() < 0.5:
            back = rng.randrange(1, len(steps) + 1)
            node_id = rng.choice(steps[:back])[0]
            steps[back:back] = [(node_id, True), (node_id, False)]
        self._pause = rng.choice([0.3, 1.0, 2.0])
        self._next(rng, steps)

    def _next(self, rng: Random, steps: list[tuple[int, bool]]) -> None:
        if not steps:
            self._raise(rng)
            return
        (node_id, is_back), *others = steps

        def restart() -> None:
            if is_back:
                self._cluster.older[node_id] = None
                self._cluster.history.counts["brokers rolled back"] += 1
            else:
                del self._cluster.older[node_id]
                self._cluster.history.counts["brokers upgraded"] += 1
            if self._cluster.is_up(node_id):
                self._cluster.crash(node_id, power_loss=False)
                self._nemesis.restart(node_id)
            self._brokers.strike_amid(rng, node_id, UPGRADE)
            self._next(rng, others)

        self._brokers.later(rng.uniform(0.1, 2 * self._pause), restart)

    def _raise(self, rng: Random) -> None:
        async def ask(node: Node) -> None:
            self._brokers.strike_amid(rng, int(node.options.node_id), UPGRADE)
            request = UpdateFeatureRequest(MEMBERSHIP, BROKERS_LEVEL, validate_only=False, timeout=_TIMEOUT)
            await node.admin.update_feature(request)

        def raised() -> None:
            self._cluster.history.counts["levels raised"] += 1

        # A broker may still be registered as what it was.
        self._brokers.later(rng.uniform(0.0, 4.0), Errand(self._cluster, rng, "raise", ask, raised, raised, ()).begin)
