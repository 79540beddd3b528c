"""Which features brokers have at this moment, asked before a level is raised (RFC 0018 section 2).

raft0's tables may be wrong about that. A version without features takes a registration without them, proposes nothing
if only they have changed, and leaves them out of its tables and its snapshots. So a table may still say what a broker
could do before it was rolled back. raft0's leader asks each broker that is linked with it, by the method of the
founding: every version answers that, and versions without features name none.

For a broker that is not linked the table counts. If it comes back in an older version, it is refused on links, or by
its own directory.
"""

import asyncio
from collections.abc import Mapping, Sequence

from cluster.errors import FeatureUpdateError
from cluster.founding_words import FOUND, FoundRequest
from model.error_text import reason_of
from model.ids import NodeId, Replica
from rpc.errors import RpcError
from rpc.links import SILENCE_SECONDS, Links

_ANSWER_TIMEOUT = 2.0


class PresentFeatures:
    """See the module.

    Args:
        links: To the other brokers.
        replica: This broker.
        own: The highest level of each feature that it has.
    """

    def __init__(self, links: Links, replica: Replica, own: Mapping[str, int]) -> None:
        self._links = links
        self._replica = replica
        self._own = dict(own)

    async def ask(self, nodes: Sequence[NodeId], deadline: float) -> dict[int, dict[str, int]]:
        """Return the highest levels of this broker and of those of `nodes` that are linked with it, by node id.

        Raises:
            FeatureUpdateError: Some are linked and have not answered in time; the message names them.
        """
        others = [node for node in nodes if node != self._replica.node_id and self._is_heard(node)]
        timeout = min(_ANSWER_TIMEOUT, max(0.0, deadline - asyncio.get_running_loop().time()))
        request = FoundRequest(self._replica.node_id, self._replica.directory_id, [], self._own)
        # All are asked at once: it takes as long as the slowest of them.
        asked = {node: self._links.send(node, FOUND, request, timeout=timeout) for node in others}
        found, silent = {int(self._replica.node_id): dict(self._own)}, []
        for node, answer in asked.items():
            try:
                found[int(node)] = (await answer).features
            except RpcError as error:
                silent.append(f"broker {node} is linked and has not told what its version has ({reason_of(error)})")
        if silent:
            raise FeatureUpdateError(f"{', '.join(silent)}: ask again once it answers, or stop it")
        return dict(sorted(found.items()))

    def _is_heard(self, node: NodeId) -> bool:
        return self._links.heard_replica(node, SILENCE_SECONDS) is not None
