"""A broker tells raft0 where it is, and what it can use, each time that it starts (RFC 0001 section 5).

It asks again until raft0's leader has taken that. Meanwhile brokers may dial the addresses of its earlier process, so
that it hears of no leader. Then it has any broker that it reaches tell the leader (RFC 0020 section 3).

Why it is not registered yet goes to the log once, and again only if it changes: a directory that was retired is asked
about for as long as its process runs.
"""

import asyncio
import logging
from collections.abc import Callable

from cluster.admin_messages import RegisterBrokerRequest
from cluster.admin_requests import AdminRequests
from cluster.commands import BrokerRecord
from cluster.controller import Controller
from cluster.errors import ClusterError, StartupError
from cluster.founding_words import Seed
from cluster.joining import Joining, JoinRequest
from cluster.known_brokers import KnownBrokers
from cluster.known_features import keep_features_known
from model.ids import Index, Replica
from rpc.links import Links
from runtime.gate import Gate

_logger = logging.getLogger("cluster")

REGISTER_TIMEOUT = 5.0
_PAUSE = 0.050


class Registration:
    """See the module.

    Args:
        controller: raft0 here.
        admin: Forwards to raft0's leader.
        links: To the other brokers.
        known_brokers: Whom these reach.
        replica: This node.
        on_registered: Called once it is registered, and this node has applied all that was committed by then.
    """

    def __init__(
        self,
        controller: Controller,
        admin: AdminRequests,
        links: Links,
        known_brokers: KnownBrokers,
        replica: Replica,
        on_registered: Callable[[], None],
    ) -> None:
        self._controller = controller
        self._admin = admin
        self._links = links
        self._known_brokers = known_brokers
        self._replica = replica
        self._on_registered = on_registered
        self._gate = Gate("registration")
        # By level: the last line that was logged.
        self._said: dict[int, str] = {}

    def begin(self, broker: BrokerRecord) -> None:
        """Register in the background."""
        self._gate.spawn(self._register(broker), name="register")

    async def stop(self) -> None:
        """Ask no more."""
        await self._gate.close()

    async def _register(self, broker: BrokerRecord) -> None:
        request = RegisterBrokerRequest(broker, REGISTER_TIMEOUT)
        while True:
            try:
                reply = await self._admin.register_broker(request)
                async with asyncio.timeout(REGISTER_TIMEOUT):
                    await self._controller.wait_applied(Index(reply.applied_index))
            except (ClusterError, TimeoutError) as error:
                why = error if isinstance(error, ClusterError) else "raft0 is not applied as far as at its leader"
                self._say(logging.INFO, f"not registered yet: {why}")
                await self._tell_addresses(broker)
                await asyncio.sleep(_PAUSE)
                continue
            self._on_registered()
            _logger.info("registered with raft0, applied up to %d: clients are served from now on", reply.applied_index)
            await keep_features_known(self._controller, self._admin, request)
            return

    async def _tell_addresses(self, broker: BrokerRecord) -> None:
        """Have any broker tell raft0's leader where this one is: it may dial the addresses of an earlier process."""
        if not self._known_brokers.is_living or self._controller.leader_id is not None:
            return
        address = broker.rpc_host, broker.rpc_port
        request = JoinRequest(*self._replica, *address, broker.features, is_question=False, timeout=REGISTER_TIMEOUT)
        peers = [Seed(link.node_id, *link.address) for link in self._links.outgoing()]
        try:
            await Joining(self._links, peers, request).ask_once()
        except StartupError as error:
            self._say(logging.ERROR, str(error))

    def _say(self, level: int, text: str) -> None:
        if self._said.get(level) != text:
            self._said[level] = text
            _logger.log(level, "%s", text)
