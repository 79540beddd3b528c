"""Row F14: two brokers have one connection in each direction, however often and however their links are lost."""

from collections import Counter
from collections.abc import Callable

import pytest

from rpc.link import OutgoingLink
from tests.simulation.world.cluster import ClusterOptions, SimCluster
from tests.simulation.world.world import World

_NODES = 3


class _Sockets:
    """The most connections of a pair of machines that were whole at one instant, and how many there ever were."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.most = 0
        self.dialled: set[tuple[str, int]] = set()
        world.scheduler.observers.append(self._look)

    def _look(self) -> None:
        pairs: Counter[tuple[int, int]] = Counter()
        for node_id, node in self._world.nodes.items():
            for transport in node.host.endpoints:
                peer = transport.peer
                # Each connection has two ends, and is counted at its lower one.
                if transport.is_open and peer.is_open and node_id < peer.host.node_id:
                    pairs[node_id, peer.host.node_id] += 1
                    self.dialled.add(transport.get_extra_info("peername"))
                    self.dialled.add(transport.get_extra_info("sockname"))
        self.most = max(self.most, *pairs.values(), 0)


def _links_are_lost_again_and_again() -> None:
    with World(241) as world:
        cluster = SimCluster(world, ClusterOptions(nodes=_NODES))
        cluster.found()
        sockets = _Sockets(world)
        rng = world.stream("losses")

        def paused(node_id: int) -> None:
            world.nodes[node_id].pause()
            world.after(1.0, world.nodes[node_id].resume)

        losses: list[Callable[[], None]] = [
            lambda: world.network.reset(*rng.sample(range(1, _NODES + 1), 2)),
            lambda: world.network.black_hole(*rng.sample(range(1, _NODES + 1), 2)),
            lambda: paused(rng.randrange(1, _NODES + 1)),
        ]
        for _ in range(60):
            rng.choice(losses)()
            world.run_until(world.time + rng.choice([0.02, 0.3, 6.0]))
            world.check()
        assert len(sockets.dialled) > 60, "many were made: this shows something"
        assert sockets.most == 2
        world.run_until(world.time + 10.0)
        world.check()
        assert all(cluster.leader_of(group) is not None for group in cluster.groups())


def test_row_f14_a_pair_of_brokers_has_at_most_two_connections() -> None:
    _links_are_lost_again_and_again()


def test_row_f14_fails_where_a_lost_link_is_dialled_twice(monkeypatch) -> None:
    dial = OutgoingLink._dial

    def dial_twice(link: OutgoingLink) -> None:
        dial(link)
        dial(link)

    monkeypatch.setattr(OutgoingLink, "_dial", dial_twice)
    with pytest.raises(AssertionError):
        _links_are_lost_again_and_again()
