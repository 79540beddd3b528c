"""One seed with idempotent producers under faults, beside the ordinary workload; then all must be there, once, in order."""

from tests.simulation.campaign.run import _advance, _cluster
from tests.simulation.clients.idempotent_clients import IdempotentClient, ProducersInOrder
from tests.simulation.clients.workload import Workload
from tests.simulation.world.nemesis import Nemesis
from tests.simulation.world.world import World

_CLIENTS = 4
_LIVENESS_SECONDS = 15.0


def run_idempotent(seed: int, seconds: float) -> dict[str, int]:
    """Run a seed and return what happened how often.

    Raises:
        Exception: Whatever objected: an invariant, an assertion of the product, or nothing moving any more.
    """
    with World(seed) as world:
        # The order of the producers is the proof here.
        cluster = _cluster(world, digests=False)
        cluster.found()
        order = ProducersInOrder(cluster.history)
        cluster.observer.add(order)
        workload = Workload(cluster, world.stream("workload"))
        for node_id in world.nodes:
            workload.start(node_id)
        clients = [
            IdempotentClient(cluster, order, number, world.stream(f"idempotent/{number}")) for number in range(_CLIENTS)
        ]
        for client in clients:
            client.start()
        nemesis = Nemesis(cluster, world.stream("nemesis"), workload.start)
        nemesis.start()
        _advance(world, seconds - _LIVENESS_SECONDS)
        nemesis.stop()
        _advance(world, world.time + 1.0)
        nemesis.restart_failed()
        workload.is_producing = False
        for client in clients:
            client.is_producing = False
        for goal in (lambda: all(client.is_idle for client in clients), cluster.has_converged):
            has_happened = world.run_until(goal, seconds)
            world.check()
            assert has_happened, f"not reached after the faults: {cluster.what_is_missing()}\n" + "\n".join(
                cluster.describe()
            )
        cluster.observer.at_end()
        for client in clients:
            assert order.committed_of(client.group, client.producer_id) == client.sent
        return dict(cluster.history.counts)
