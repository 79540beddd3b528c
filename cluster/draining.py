"""A broker that is being drained or decommissioned hands over what it leads, again and again (RFC 0020)."""

import asyncio

from cluster.members_table import BrokerState, MembersTable
from model.ids import NodeId
from raft.group_manager import GroupManager
from runtime.gate import Gate

_INTERVAL = 2.0
_PATIENCE = 5.0


class Draining:
    """See the module. While this broker is active, nothing runs."""

    def __init__(self, members: MembersTable, groups: GroupManager, node_id: NodeId) -> None:
        self._members = members
        self._groups = groups
        self._node_id = node_id
        self._gate = Gate("draining")
        self._is_running = False

    def start(self) -> None:
        """Begin to look; the table may say already that this broker is not active."""
        self._members.add_listener(self._look)
        self._look()

    async def stop(self) -> None:
        """Hand over nothing more."""
        await self._gate.close()

    @property
    def _must_lead_nothing(self) -> bool:
        member = self._members.member(self._node_id)
        return member is not None and member.state is not BrokerState.ACTIVE

    def _may_lead(self, node_id: NodeId) -> bool:
        member = self._members.member(node_id)
        return member is not None and member.state is BrokerState.ACTIVE

    def _look(self) -> None:
        if self._must_lead_nothing and not self._is_running and not self._gate.is_closed:
            self._is_running = True
            self._gate.spawn(self._run(), name="hand-over")

    async def _run(self) -> None:
        try:
            while self._must_lead_nothing:
                # To one that must lead nothing either, it would only come back.
                await self._groups.give_leadership(_PATIENCE, self._may_lead)
                await asyncio.sleep(_INTERVAL)
        finally:
            self._is_running = False
