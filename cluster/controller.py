"""raft0 on this node: the replica, its tables, and how a command gets into its log."""

import asyncio

from cluster.commands import Command, encode_command
from cluster.controller_state import ControllerState
from cluster.errors import ControllerUnavailableError, NotControllerError, TablesFullError
from cluster.retention_rule import UNLIMITED, RetentionPolicy
from cluster.retention_start import retention_start
from cluster.state_bounds import Fill, StateFullError
from model.ids import ConsistencyLevel, Index, NodeId
from raft.consensus import Consensus
from raft.errors import NotLeaderError, RaftError, ReadTimedOutError, RetryableError
from raft.replicate_item import NewEntry
from storage.entry import EntryKind


class Controller:
    """raft0's replica of this node together with the tables it feeds: `state` is the one that follows its log."""

    def __init__(self, consensus: Consensus, state: ControllerState) -> None:
        self.consensus = consensus
        self._state = state
        self.members = state.tables.members
        self.topics = state.tables.topics
        self.producer_ids = state.tables.producer_ids
        self.features = state.tables.features
        self.options = state.tables.options
        self.raft0 = state.tables.raft0
        # Since when nobody is known to lead raft0 (loop time); None while somebody is.
        self._leaderless_since: float | None = None
        # Commands that check the tables before they propose run one after the other at the leader.
        self.admission = asyncio.Lock()

    def start(self) -> None:
        """Begin to watch who leads."""
        self.consensus.add_leadership_listener(self._on_leadership)
        self._on_leadership(self.consensus)

    async def stop(self) -> None:
        """Whoever waits is cancelled; the group manager stops the replica."""
        self._state.cancel_waiters()

    @property
    def is_in_office(self) -> bool:
        """This node leads raft0 and has applied everything before its term: its tables are current."""
        state = self.consensus.state
        return state.is_in_office and self.applied_index >= state.barrier_index

    def require_office(self) -> None:
        """Raise NotControllerError unless this node leads raft0, as far as it knows.

        It may have been deposed: what follows must be decided by a command that is committed (RFC 0012).
        """
        if not self.is_in_office:
            raise NotControllerError(f"node {self.consensus.state.node_id} does not lead raft0")

    async def confirm_office(self, deadline: float) -> Index:
        """Return raft0's commit index as of the call, once it is certain that this node has led raft0 after the call.

        Whatever any broker had applied before the call lies at or below that index: a newer leader, which could have
        committed more, would need votes of a majority that has answered this one in its term since (RFC 0003 section
        10). The tables here are applied at least so far when this returns.

        Raises:
            NotControllerError: It does not lead, or no majority says so in time.
        """
        self.require_office()
        barrier, committed = self.consensus.barrier, self.consensus.state.commit_index
        try:
            async with asyncio.timeout_at(deadline):
                await barrier.wait(barrier.arrive())
                # They lag behind the commit index while a snapshot of them is encoded.
                await self.wait_applied(committed)
        except (NotLeaderError, ReadTimedOutError) as error:
            raise NotControllerError(str(error)) from error
        except TimeoutError:
            raise NotControllerError("raft0: no majority has confirmed the leader in time") from None
        self.require_office()
        return committed

    async def settle(self, deadline: float) -> None:
        """Return once the tables have all that lies in the log: a command whose proposal took too long may be there.

        The caller holds `admission`, so nothing else comes before what it proposes then.

        Raises:
            ControllerUnavailableError: Not before the deadline (loop time).
        """
        try:
            async with asyncio.timeout_at(deadline):
                await self.wait_applied(self.consensus.log.dirty_index)
        except TimeoutError:
            raise ControllerUnavailableError("raft0: what lies in the log was not applied in time") from None

    @property
    def applied_index(self) -> Index:
        """The tables are as of this entry of raft0."""
        return self._state.applied_index

    async def wait_applied(self, index: Index) -> None:
        """Return once `index` is applied. The caller bounds the wait with `asyncio.timeout`."""
        await self._state.wait_applied(index)

    @property
    def leader_id(self) -> NodeId | None:
        """Who leads raft0, as far as known here."""
        return self.consensus.leader_id

    @property
    def leaderless_seconds(self) -> float:
        """For how long this node has known no leader of raft0; 0 while it knows one."""
        since = self._leaderless_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def _on_leadership(self, consensus: Consensus) -> None:
        if consensus.leader_id is not None:
            self._leaderless_since = None
        elif self._leaderless_since is None:
            self._leaderless_since = asyncio.get_running_loop().time()

    def fills(self) -> list[Fill]:
        """Return how full the tables are."""
        return self._state.fills()

    def check_room(self, command: Command) -> None:
        """Raise TablesFullError if `propose` would refuse the command for the size of the tables."""
        refusal = self._state.judge(command)
        if refusal is not None:
            raise TablesFullError(str(refusal))

    async def propose(self, command: Command, deadline: float) -> Index:
        """Replicate and apply `command` at this node, which must lead raft0; return its index.

        Raises:
            NotControllerError: Not the leader in office; nothing was written.
            ControllerUnavailableError: No majority before `deadline`; the command may still be applied later.
            TablesFullError: The tables would be larger than they may be; nothing was written.
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
        except StateFullError as error:
            raise TablesFullError(str(error)) from error
        except RetryableError as error:
            raise NotControllerError(str(error)) from error
        except RaftError as error:
            raise ControllerUnavailableError(f"raft0: {error}") from error
        try:
            async with asyncio.timeout_at(deadline):
                await self.wait_applied(result.last_index)
        except TimeoutError:
            raise ControllerUnavailableError("raft0: the command was not applied in time") from None
        refusal = self._state.refusal(result.last_index)
        if refusal is not None:
            raise refusal
        return result.last_index

    async def propose_or_check(self, command: Command, deadline: float, *, validate_only: bool) -> Index | None:
        """Return the index of the applied command; None where it is only asked for whether it could be.

        Raises:
            ClusterError: As `propose`; where it is only asked for, TablesFullError at most.
        """
        if not validate_only:
            return await self.propose(command, deadline)
        self.check_room(command)
        return None

    async def apply_retention(self, keep_bytes: int, now_ms: int, deadline: float) -> bool:
        """Leader in office: begin the log behind what its snapshots make dispensable; return whether it moved.

        Raises:
            RaftError: As `Consensus.move_log_start`.
        """
        consensus = self.consensus
        if consensus.snapshot_refusal is not None:
            return False
        policy = RetentionPolicy(UNLIMITED, keep_bytes)
        start = retention_start(consensus.log, consensus.state.commit_index, now_ms, policy)
        if start is not None:
            await consensus.move_log_start(start, consensus.term, deadline)
        return start is not None
