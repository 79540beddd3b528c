"""Verbs of the admin port, as a nemesis asks them: at any broker that runs, again where nobody knows what happened."""

import random
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from raftka.admin_client import AdminError, request_json
from raftka.chaos.cluster import ChaosCluster
from raftka.counted import counted

# How long raft0's leader may take, and how long an answer may. The nemesis blocks meanwhile.
_VERB_SECONDS = 2.0
_ANSWER_SECONDS = 3.0


class Answer(NamedTuple):
    """What a broker said; status 0: nobody knows what became of the request."""

    status: int
    body: Mapping[str, Any]

    @property
    def is_done(self) -> bool:
        """Whether it did what it was asked."""
        return self.status == 200

    @property
    def is_refused(self) -> bool:
        """Whether it certainly did not, and had a reason."""
        return 400 <= self.status < 500 and self.status != 429

    @property
    def reason(self) -> str:
        """What it said of a refusal."""
        return str(self.body.get("message") or self.body.get("error") or f"HTTP status {self.status}")


_SILENCE = Answer(0, {})


class BrokerAdmin:
    """Asks one broker at a time, drawn among those that run."""

    def __init__(self, cluster: ChaosCluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng

    def ask(self, path: str, document: Mapping[str, Any] | None = None, but: Collection[int] = ()) -> Answer:
        """Return the answer to a POST, or to a GET if there is no document, of a broker that is none of `but`."""
        nodes = [node for node in self._cluster.nodes if node not in but and self._cluster.exit_code(node) is None]
        if not nodes:
            return _SILENCE
        address = self._cluster.admin(self._rng.choice(nodes))
        body = None if document is None else {"timeout": _VERB_SECONDS, **document}
        try:
            status, told = request_json(
                address, path, _ANSWER_SECONDS, method="GET" if document is None else "POST", document=body
            )
        except AdminError:
            return _SILENCE
        return Answer(status, told if isinstance(told, dict) else {"rows": told})

    def replicas(self, topic: str, number: int) -> list[int]:
        """Return the brokers that hold a partition; empty: nobody says."""
        answer = self.ask(f"/v1/partitions/{topic}/{number}")
        return [int(node) for node in answer.body["replicas"]] if answer.is_done else []

    def broker(self, node: int) -> Mapping[str, Any] | None:
        """Return what another broker says of a broker; None: nobody says, or it is not in the cluster."""
        answer = self.ask(f"/v1/brokers/{node}", but=(node,))
        return answer.body if answer.is_done else None

    def why_not_settled(self) -> str | None:
        """Return which change is still on its way; None: none is, some broker says."""
        answer = self.ask("/v1/moves")
        if not answer.is_done:
            return "no broker says which partitions are being moved"
        if moves := answer.body["moves"]:
            waits = "; ".join(f"{each['topic']}-{each['partition']}: {each['waits_for']}" for each in moves[:3])
            return f"{counted(len(moves), 'partition')} on the way: {waits}"
        for node in self._cluster.nodes:
            told = self.broker(node)
            if told is None:
                return f"nobody tells of broker {node}"
            if told["state"] != "active" or told["directory_retired"]:
                retired = ", and its directory is retired" if told["directory_retired"] else ""
                return f"broker {node} is {told['state']}{retired}"
        return None
