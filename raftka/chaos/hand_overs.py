"""The transfer nemesis: leaders hand over, one after the other; also where another fault wants one to lead."""

import random
import threading
from collections.abc import Callable

from raftka.admin_client import AdminError, request_json
from raftka.chaos.cluster import ChaosCluster
from raftka.chaos.history import History
from raftka.chaos.leadership import LeadershipWatch
from raftka.chaos.load import Topics, tp_of
from raftka.chaos.schedule import Fault

_TRANSFER_PAUSE = 0.5
_TRANSFER_SECONDS = 3.0


class HandOvers:
    """Asks leaders to hand over."""

    def __init__(self, cluster: ChaosCluster, history: History, watch: LeadershipWatch, topics: Topics) -> None:
        self._cluster = cluster
        self._history = history
        self._watch = watch
        self._topics = topics
        self._storm = threading.Event()
        self._is_over = threading.Event()

    def begin(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        """Let leaders hand over until what this returns is called."""
        self._history.fault(fault.kind, nodes=victims, nemesis=fault.nemesis, target=fault.target)
        self._storm = threading.Event()
        thread = threading.Thread(
            target=self._transfers, args=(self._storm, random.Random(fault.at), fault), daemon=True
        )
        thread.start()
        return self._storm.set

    def finish(self) -> None:
        """Let no leader hand over any more."""
        self._storm.set()
        self._is_over.set()

    def _transfers(self, stop: threading.Event, rng: random.Random, fault: Fault) -> None:
        """Let leaders hand over, one after the other; one that cannot is one that need not.

        Where none of them could, because other faults left nobody to hand over to, it goes on until one has.
        """
        has_happened = False
        while self._topics.all and not (self._is_over.wait(_TRANSFER_PAUSE) or (has_happened and stop.is_set())):
            topic, number = rng.choice(self._topics.all)
            has_happened |= self.hand_over(topic, number, rng.choice(self._cluster.nodes), fault)

    def hand_over(self, topic: str, number: int, target: int, fault: Fault) -> bool:
        """Ask a leader to hand over; returns whether it has."""
        leader = self._watch.leader_of(tp_of(topic, number))
        if leader is None or leader not in self._cluster.nodes or leader == target:
            return False
        path = f"/v1/partitions/{topic}/{number}/transfer_leadership?target={target}"
        try:
            status, body = request_json(self._cluster.admin(leader), path, _TRANSFER_SECONDS, method="POST")
        except AdminError:
            return False
        # Where another fault has let the target lead meanwhile, nothing is handed over.
        has_handed_over = status == 200 and body["leader_before"] == leader
        if has_handed_over:
            tp = tp_of(topic, number)
            self._history.fault("transferred", tp=tp, nodes=[leader], to=target, nemesis=fault.nemesis)
        return has_handed_over
