"""The leader's way from the voters that a group has to those that are wanted (RFC 0019 section 3).

`membership_steps` decides each step. This fiber asks it once the newest configuration is committed, appends what it
says as an entry of its own, and waits for what the rule waits for. It ends with the target, with the leadership, or
when another target is set; the next leader begins where the log ends.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection

from model.ids import ConsistencyLevel, Index, NodeId, Replica
from raft.configuration_entry import encode_configuration
from raft.errors import RaftError
from raft.group_configuration import GroupConfiguration
from raft.leadership_transfer import LeadershipTransfer
from raft.membership_steps import Append, Reached, Target, WaitFor, next_step
from raft.replica_context import ReplicaContext
from raft.replicate_batcher import ReplicateBatcher
from raft.replicate_item import NewEntry
from storage.entry import EntryKind

# A leader that is to leave hands over first: whoever leads then appends what it would have appended.
_TRANSFERS_MAX = 3


class Reconfiguration:
    """The target of one replica's group, and the fiber that leads there while this replica is in office.

    Attributes:
        target: None: nobody has asked for anything yet.
        waits_for: Why the fiber does not go on; empty: it does, or none runs.
        has_reached: Whether the target is in force, alone, and committed.
    """

    def __init__(
        self,
        context: ReplicaContext,
        batcher: ReplicateBatcher,
        transfer: LeadershipTransfer,
        on_reached: Callable[[], object],
    ) -> None:
        self._context = context
        self._batcher = batcher
        self._transfer = transfer
        self._on_reached = on_reached
        self.target: Target | None = None
        self.waits_for = ""
        self.has_reached = False
        self._is_running = False
        self._transfers = 0
        # (loop time, commit index) at looks within the last election timeout, oldest first.
        self._commits: deque[tuple[float, Index]] = deque()

    def aim(self, target: Target) -> None:
        """Want these voters from now on. A target of an earlier revision than the one that is wanted is ignored."""
        if self.target is not None and target.revision < self.target.revision:
            return
        if target != self.target:
            self.target, self.has_reached, self._transfers = target, False, 0
        self.look()

    def look(self) -> None:
        """Go on if there is anything to do: the replica has come into office, or the target is another one."""
        if self.target is None or self.has_reached or self._is_running or not self._context.state.is_in_office:
            return
        if self.target.revision < self._context.state.configuration.revision:
            return  # Whoever has asked for the later one tells us, too.
        self._is_running = True
        self._context.gate.spawn(self._run(), name="reconfiguration")

    async def _run(self) -> None:
        context, state = self._context, self._context.state
        term = state.term
        self._commits.clear()
        try:
            while state.is_in_office and state.term == term and (target := self.target) is not None:
                self._note_commit()
                if target.revision < state.configuration.revision:
                    return
                if not state.configurations.is_committed:
                    await self._pause("the newest configuration is not committed")
                    continue
                step = next_step(state.configuration, target, self._is_caught_up, self._is_answering)
                match step:
                    case Reached():
                        self._reach(target)
                        return
                    case WaitFor(reason):
                        await self._pause(reason + self._held_back())
                    case Append() if not context.node.configurations.is_open:
                        context.node.configurations.open_soon()
                        await self._pause("this node may not hold configurations yet")
                    case Append(configuration):
                        await self._append(configuration)
        except RaftError as error:
            context.logger.info("does not go on with its new voters: %s", error)
            await self._pause(str(error))
        finally:
            self._is_running, self.waits_for = False, ""
        self.look()

    def _reach(self, target: Target) -> None:
        self.has_reached = True
        self._context.logger.info("has its new voters %s", list(self._context.state.configuration.voter_ids))
        self._on_reached()

    async def _append(self, configuration: GroupConfiguration) -> None:
        """Append a configuration and wait until it is committed, by the quorums that it has itself.

        Raises:
            RaftError: It is not known to be committed.
        """
        context, state = self._context, self._context.state
        # L1 of RFC 0019: one at a time, and none before the barrier of the term.
        assert state.is_in_office
        assert state.configurations.is_committed
        # L10 of RFC 0019: an older version would open the directory, and skip the entry.
        assert context.node.configurations.is_open
        term = state.term
        if not configuration.is_joint and not configuration.is_voter(state.self_replica):
            if await self._hands_over(configuration.voter_ids):
                return
            if state.term != term or not state.is_in_office:
                # It has lost the leadership meanwhile, and may even lead a later term: what was decided in this one
                # could come before that term's barrier (seeds 249 and 277 of the living profile).
                return
        voters = [[int(voter.node_id) for voter in voters] for voters in configuration.voter_sets]
        learners = [int(learner.node_id) for learner in configuration.learners]
        context.logger.info(
            "goes on to voters %s, learners %s, revision %d.%d", voters, learners, *configuration.revision
        )
        entry = NewEntry(EntryKind.CONFIGURATION, encode_configuration(configuration), 0)
        stages = self._batcher.replicate([entry], ConsistencyLevel.QUORUM_ACK, expected_term=term)
        await stages.replicated

    async def _hands_over(self, staying: Collection[NodeId]) -> bool:
        """Let another voter lead; False: nobody takes it, so this replica goes on by itself.

        If none of those that stay is in sync, the other one is about to leave, too. It then hands over in its turn.

        Args:
            staying: Who votes in the configuration that comes next.
        """
        while self._transfers < _TRANSFERS_MAX:
            self._transfers += 1
            try:
                await self._transfer.run(None, preferred=staying)
            except RaftError as error:
                self._context.logger.info("cannot hand over before it leaves the voters: %s", error)
                await asyncio.sleep(self._context.options.heartbeat_interval)
            else:
                return True
        return False

    def _held_back(self) -> str:
        """Return what a throttle has to do with it: which learners are held to which rates."""
        followers = self._context.state.followers
        learners = [followers.get(each.node_id) for each in self._context.state.configuration.learners]
        held = [f"node {each.node_id} gets {each.held_back_by}" for each in learners if each and each.held_back_by]
        return f" ({'; '.join(held)})" if held else ""

    def _is_caught_up(self, learner: Replica) -> bool:
        """Whether a learner has flushed what was committed at a moment within the last election timeout.

        Under load commit is always ahead of what a learner has answered, so it is not compared with commit as of now.
        """
        follower = self._context.state.followers.get(learner.node_id)
        if follower is None or follower.needs_recovery:
            return False
        return follower.position.flushed >= self._commits[0][1]

    def _note_commit(self) -> None:
        self._commits.append((self._context.now(), self._context.state.commit_index))
        while self._commits[0][0] < self._recently():
            self._commits.popleft()

    def _is_answering(self, replica: Replica) -> bool:
        if replica == self._context.state.self_replica:
            return True
        follower = self._context.state.followers.get(replica.node_id)
        return follower is not None and follower.last_reply_at >= self._recently()

    def _recently(self) -> float:
        return self._context.now() - self._context.options.election_timeout

    async def _pause(self, reason: str) -> None:
        if reason != self.waits_for:
            self.waits_for = reason
            self._context.logger.debug("waits on its way to new voters: %s", reason)
        await asyncio.sleep(self._context.options.heartbeat_interval)
