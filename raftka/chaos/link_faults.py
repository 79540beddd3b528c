"""The partition nemesis: links between brokers, and those of clients, are cut or throttled."""

import random
from collections.abc import Callable

from raftka.chaos.cluster import ChaosCluster
from raftka.chaos.history import History
from raftka.chaos.network_namespace import NetworkNamespace
from raftka.chaos.schedule import Fault

_THROTTLED_BYTES_PER_SECOND = 100 * 1024


class LinkFaults:
    """Cuts and throttles links; what ends one of these faults ends all of them.

    Args:
        rng: Chooses the other end of a link; shared with the nemesis that chooses victims.
    """

    def __init__(self, cluster: ChaosCluster, network: NetworkNamespace, history: History, rng: random.Random) -> None:
        self._cluster = cluster
        self._network = network
        self._history = history
        self._rng = rng

    def begin(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        """Do what the fault's kind says to the victims; returns what takes it back."""
        kinds = {
            "halves": self._halves,
            "one-way": self._one_way,
            "isolate-from-peers": self._isolate_from_peers,
            "isolate-from-all": self._isolate_from_all,
            "throttle": self._throttle,
        }
        return kinds[fault.kind](victims, fault)

    def _halves(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        self._note(fault, victims)
        others = [node for node in self._cluster.nodes if node not in victims]
        self._cut_both_ways(victims, others)
        return self._network.heal

    def _one_way(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        peer = self._rng.choice([node for node in self._cluster.nodes if node not in victims])
        source, target = self._rng.sample([victims[0], peer], 2)
        self._note(fault, victims, source=source, to=target)
        self._network.cut(self._host(source), self._host(target))
        return self._network.heal

    def _isolate_from_peers(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        self._note(fault, victims)
        self._cut_both_ways(victims, [node for node in self._cluster.nodes if node not in victims])
        return self._network.heal

    def _isolate_from_all(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        take_back = self._isolate_from_peers(victims, fault)
        for node in victims:
            self._network.cut_port(self._cluster.links(node).kafka_port)
        return take_back

    def _throttle(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        self._note(fault, victims)
        for peer in self._cluster.nodes:
            if peer not in victims:
                self._network.throttle(self._host(victims[0]), self._host(peer), _THROTTLED_BYTES_PER_SECOND)
        return self._network.heal

    def _cut_both_ways(self, some: list[int], others: list[int]) -> None:
        for one in some:
            for other in others:
                self._network.cut(self._host(one), self._host(other))
                self._network.cut(self._host(other), self._host(one))

    def _host(self, node: int) -> str:
        return self._cluster.links(node).rpc_host

    def _note(self, fault: Fault, victims: list[int], **fields: object) -> None:
        self._history.fault(fault.kind, nodes=victims, nemesis=fault.nemesis, target=fault.target, **fields)
