"""Tells raft0's leader again what this broker can do, while the cluster uses less (RFC 0018 section 1).

A leader of raft0 of a version without features leaves them out of a registration. A later leader may also have begun
with such a version's snapshot. So a broker registers again with each new leader, until the levels that it has are in
force. A leader that has the registration already proposes nothing.
"""

import asyncio

from cluster.admin_messages import RegisterBrokerRequest
from cluster.admin_requests import AdminRequests
from cluster.controller import Controller
from cluster.errors import ClusterError

_LOOK_PAUSE = 1.0


async def keep_features_known(controller: Controller, admin: AdminRequests, request: RegisterBrokerRequest) -> None:
    """Return once all levels are in force that the broker of `request` has; at once if it has none above 0."""
    told_in = None
    while any(level > controller.features.level(name) for name, level in request.broker.features.items()):
        term = controller.consensus.term
        if term != told_in and controller.leader_id is not None:
            try:
                await admin.register_broker(request)
            except ClusterError:
                pass  # With the next look.
            else:
                told_in = term
        await asyncio.sleep(_LOOK_PAUSE)
