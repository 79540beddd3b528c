"""raft0 on this node: the replica, its tables, and how a command gets into its log."""

import asyncio

from cluster.commands import Command, encode_command
from cluster.controller_stm import ControllerStm
from cluster.errors import ControllerUnavailableError, NotControllerError
from cluster.members_table import MembersTable
from cluster.producer_id_table import ProducerIdTable
from cluster.topic_table import TopicTable
from model.ids import ConsistencyLevel, NodeId
from model.topic_config import TopicConfig
from raft.consensus import Consensus
from raft.errors import RaftError, RetryableError
from raft.options import RaftOptions
from raft.replicate_item import NewEntry
from raft.state_machine import StateMachineApplier
from storage.entry import EntryKind


class Controller:
    """raft0's replica of this node together with the tables it feeds."""

    def __init__(self, consensus: Consensus, options: RaftOptions, topic_defaults: TopicConfig) -> None:
        self.consensus = consensus
        self.members = MembersTable()
        self.topics = TopicTable(topic_defaults)
        self.producer_ids = ProducerIdTable()
        self._stm = ControllerStm(self.members, self.topics, self.producer_ids)
        self.applier = StateMachineApplier(consensus, self._stm, options)
        # Since when nobody is known to lead raft0 (loop time); None while somebody is.
        self._leaderless_since: float | None = None
        # Commands that check the tables before they propose run one after the other at the leader.
        self.admission = asyncio.Lock()

    def start(self) -> None:
        """Begin to apply."""
        self.consensus.add_leadership_listener(self._note_leader)
        self._note_leader(self.consensus)
        self.applier.start()

    async def stop(self) -> None:
        """Apply nothing more; the group manager stops the replica."""
        await self.applier.stop()

    @property
    def is_in_office(self) -> bool:
        """This node leads raft0 and has applied everything before its term: its tables are current."""
        return self.applier.is_in_office

    @property
    def leader_id(self) -> NodeId | None:
        """Who leads raft0, as far as known here."""
        return self.consensus.leader_id

    @property
    def leaderless_seconds(self) -> float:
        """For how long this node has known no leader of raft0; 0 while it knows one."""
        since = self._leaderless_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def _note_leader(self, consensus: Consensus) -> None:
        if consensus.leader_id is not None:
            self._leaderless_since = None
        elif self._leaderless_since is None:
            self._leaderless_since = asyncio.get_running_loop().time()

    async def propose(self, command: Command, deadline: float) -> None:
        """Replicate and apply `command` at this node, which must lead raft0.

        Raises:
            NotControllerError: Not the leader in office; nothing was written.
            ControllerUnavailableError: No majority before `deadline`; the command may still be applied later.
            ClusterError: The tables refused it.
        """
        if not self.is_in_office:
            raise NotControllerError("this node does not lead raft0")
        entry = NewEntry(EntryKind.COMMAND, encode_command(command), 0)
        stages = self.consensus.replicate(
            [entry], ConsistencyLevel.QUORUM_ACK, expected_term=self.consensus.term, deadline=deadline
        )
        try:
            result = await stages.replicated
        except RetryableError as error:
            raise NotControllerError(str(error)) from error
        except RaftError as error:
            raise ControllerUnavailableError(f"raft0: {error}") from error
        try:
            async with asyncio.timeout_at(deadline):
                await self.applier.wait_applied(result.last_index)
        except TimeoutError:
            raise ControllerUnavailableError("raft0: the command was not applied in time") from None
        refusal = self._stm.refusal(result.last_index)
        if refusal is not None:
            raise refusal
