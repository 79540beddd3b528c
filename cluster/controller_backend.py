"""Makes this node's groups match the topic table: opens the replicas placed here, and removes those of deleted topics.

It tells each replica of a partition that is being moved which voters are wanted (RFC 0019 section 6). A replica of a
partition that was moved elsewhere leaves this node.

A replica's directory is removed because this node applied a `delete_topic` command. A node that was away may receive a
snapshot of raft0 instead of that command. Therefore a group that is on disk but in no table is removed, too. Such a
group is judged only after this node has applied everything up to the commit index that raft0's leader has confirmed for
this node's registration (RFC 0012 section 2). The same holds for replicas that leave.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from cluster.group_steps import PATIENCE, GroupSteps, Step
from cluster.leadership import Leadership
from cluster.members_table import MembersTable
from cluster.partition import Partition, log_options
from cluster.partition_manager import PartitionManager
from cluster.topic_table import Topic, TopicTable
from model.error_text import reason_of
from model.ids import GroupId, Replica, number_of, topic_of
from raft.consensus import Consensus
from raft.group_configuration import GroupConfiguration, RaftPolicy
from raft.group_manager import GroupManager
from raft.log_state import LogState
from raft.membership_steps import Target
from runtime.gate import Gate
from storage.errors import MismatchedLogError, ReplicaRemovedError, StorageError

_logger = logging.getLogger("cluster")
_RETRY_PAUSE = 5.0


class ControllerBackend:
    """Reconciles after each change of the topic table."""

    def __init__(
        self,
        topics: TopicTable,
        members: MembersTable,
        groups: GroupManager,
        partitions: PartitionManager,
        leadership: Leadership,
        self_replica: Replica,
        new_log_state: Callable[[Topic, int], LogState],
    ) -> None:
        self._topics = topics
        self._members = members
        self._retired = members.retired
        self._groups = groups
        self._partitions = partitions
        self._leadership = leadership
        self._self_replica = self_replica
        # A replica that is opened again begins with a state that knows nothing.
        self._new_log_state = new_log_state
        self._gate = Gate("controller-backend")
        self._changed = asyncio.Event()
        self._is_idle = False
        # What was started here, by this process.
        self._placed: dict[GroupId, Topic] = {}
        self.failed: dict[GroupId, str] = {}
        # Closed because of damage, and not open again yet.
        self.reopening: set[GroupId] = set()
        # What was placed here at the start of this process was opened, or the disk refused it.
        self.has_opened = False
        # Deleted since the last look. A topic that is created and deleted within one replay of the log was never
        # placed by this process, but a directory of it may be left from an earlier one.
        self._deleted: list[Topic] = []
        # What is to be removed, with what to call it and why the disk has refused it, empty if it has not.
        self._unremoved: dict[GroupId, tuple[str, str]] = {}
        self._steps = GroupSteps(self._gate, topics.name_of, self._changed.set)
        self._has_leftovers = False
        # The table is as new as what raft0's leader has confirmed for this process.
        self._is_confirmed = False
        # On this disk, not open, and moved elsewhere.
        self._strays: set[GroupId] = set()
        # What cannot leave yet, and why.
        self._unleft: dict[GroupId, str] = {}
        # Why the disk does not tell what it has; said once.
        self._leftovers_refused = ""
        groups.add_leadership_listener(self._on_leadership)
        topics.add_delete_listener(self._deleted.append)
        topics.add_config_listener(self._apply_config)
        topics.add_listener(self._changed.set)
        members.add_listener(self._on_members)

    def start(self) -> None:
        """Begin to reconcile."""
        self._gate.spawn(self._run(), name="reconcile")

    async def stop(self) -> None:
        """Start and remove nothing more."""
        await self._gate.close()

    @property
    def is_reconciled(self) -> bool:
        """Whether every replica placed here has been opened, and every deleted one is gone, or the disk refused it."""
        return self._is_idle and not self._changed.is_set() and not self._steps.under_way

    @property
    def unleft(self) -> dict[str, str]:
        """What was moved elsewhere and cannot leave this node: the partition's name, and what the disk says."""
        return {self._topics.name_of(group): why for group, why in self._unleft.items()}

    def remove_leftovers(self) -> None:
        """Remove the groups on this disk whose topic is in no table.

        Call it once the table is applied up to the commit index that raft0's leader has confirmed for the registration
        of this process. A topic that such a table lacks was deleted: a replica is made only for a topic that is in the
        table, so an earlier process here had applied its creation (RFC 0012 section 2).
        """
        self._has_leftovers = self._is_confirmed = True
        self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            self._is_idle = False
            is_confirmed = self._is_confirmed
            await self._reconcile()
            self._is_idle = True
            # What is placed here later is no reason for a broker not to be ready.
            self.has_opened = self.has_opened or (is_confirmed and not self._steps.under_way)
            if self.failed or self._unremoved or self._unleft or self._has_leftovers:
                # A disk that refused may have recovered; wait, but not past the next change.
                try:
                    async with asyncio.timeout(_RETRY_PAUSE):
                        await self._changed.wait()
                except TimeoutError:
                    pass
            else:
                await self._changed.wait()

    async def _reconcile(self) -> None:
        while self._deleted:
            self._forget(self._deleted.pop(0))
        if self._has_leftovers:
            await self._find_leftovers()
        await self._steps.run(
            "removing", {group: partial(self._remove, name, group) for group, (name, _) in self._unremoved.items()}
        )
        damaged = [group for group in self._placed if _is_damaged(self._groups.get(group))]
        await self._steps.run("closing", {group: partial(self._close, group) for group in damaged})
        self._follow_moves()
        await self._steps.run("moving away", self._find_moved())
        due = {
            topic.group(number): partial(self._start, topic, number, topic.created_on(number))
            for topic in self._topics.all()
            for number, replicas in enumerate(topic.replicas)
            if self._self_replica in (topic.holders(number) if topic.placements else replicas)
            and topic.group(number) not in self._placed
        }
        await self._steps.run("opening", due)

    def _on_members(self) -> None:
        """Who is on its way out of a group leaves first if its directory never counts again."""
        if self._members.retired != self._retired:
            self._retired = self._members.retired
            self._changed.set()

    def _on_leadership(self, consensus: Consensus) -> None:
        """A replica that stopped because of damage is opened again, without what is damaged."""
        if _is_damaged(consensus):
            self._changed.set()

    async def _close(self, group: GroupId) -> None:
        del self._placed[group]
        self.reopening.add(group)
        partition = self._partitions.discard(group)
        assert partition is not None
        _logger.warning("partition %s is opened again without what is damaged", partition.name)
        await self._groups.close(group)
        # If it is to leave, it must be opened for that.
        self._note_stray(group)

    async def _start(self, topic: Topic, number: int, created_on: tuple[Replica, ...]) -> None:
        group = topic.group(number)
        if number in topic.placements and not await self._has_left_or_stayed(topic, number):
            return
        policy = RaftPolicy(topic.config.min_insync_replicas)
        log_state = self._new_log_state(topic, number)
        try:
            consensus = await self._groups.create(
                *(
                    group,
                    GroupConfiguration.of(created_on),
                    policy,
                    log_options(topic.config),
                    log_state,
                ),
                is_internal=topic.is_vital,
                name=topic.partition_name(number),
                has_peers=len(topic.holders(number)) > 1,
            )
        except ReplicaRemovedError:
            # An earlier process was told to delete the topic; this one has not applied the command again yet.
            return
        except StorageError as error:
            if self.failed.get(group) != str(error):
                _logger.error("%s cannot start here: %s", topic.partition_name(number), error)
            self.failed[group] = str(error)
            return
        self.failed.pop(group, None)
        self.reopening.discard(group)
        # `_reconcile` opens only what is not open: nobody would stop the replica that a second one hides.
        assert group not in self._placed
        self._placed[group] = topic
        consensus.apply_policy(policy, write_caching=topic.config.write_caching)
        self._partitions.add(group, Partition(topic, number, consensus, log_state))
        # The topic may have been altered while the replica was opened.
        topic = self._topics.get_by_id(topic.topic_id) or topic
        self._apply_config(topic)
        if number in topic.placements:
            self._aim(topic, number)
        # The one line that has the group's id, by which files are named: all others have the partition's name.
        _logger.info("partition %s is group %s", topic.partition_name(number), group)

    def _apply_config(self, topic: Topic) -> None:
        for number in range(len(topic.replicas)):
            partition = self._partitions.get(topic.group(number))
            if partition is not None and partition.config != topic.config:
                partition.apply_config(topic.config)

    # -- moves --------------------------------------------------------------------------------------------------

    def _moved_topics(self) -> list[Topic]:
        return [topic for topic in self._topics.all() if topic.placements]

    def _follow_moves(self) -> None:
        """Let every replica here whose partition was ever moved know which voters are wanted."""
        for topic in self._moved_topics():
            for number in topic.placements:
                if topic.group(number) in self._placed:
                    self._aim(topic, number)

    def _aim(self, topic: Topic, number: int) -> None:
        consensus, partition = self._groups.get(topic.group(number)), self._partitions.get(topic.group(number))
        if consensus is None or partition is None:
            return
        # It is counted how many replicas the partition has.
        partition.topic = topic
        placement, move = topic.placements[number], topic.move_of(number)
        wanted = topic.replicas[number] if move is None else move.target
        revision = placement.finished if move is None else move.revision
        # What is on its way out leaves first if it never counts again.
        gone = {replica.directory_id for replica in topic.holders(number) if replica not in wanted}
        target = Target(wanted, revision, frozenset(gone & self._members.retired))
        if consensus.reconfiguration.target != target:
            consensus.reconfigure(target)

    def _find_moved(self) -> dict[GroupId, Step]:
        """Return a step for each replica here that was moved elsewhere."""
        if not self._is_confirmed:
            return {}
        steps: dict[GroupId, Step] = {}
        for topic in self._moved_topics():
            for number in topic.placements:
                group = topic.group(number)
                if self._self_replica in topic.holders(number):
                    self._strays.discard(group)
                    self._unleft.pop(group, None)
                elif group in self._placed or group in self._strays:
                    steps[group] = partial(self._leave, topic, number)
        return steps

    async def _leave(self, topic: Topic, number: int) -> None:
        topic = self._topics.get_by_id(topic.topic_id) or topic
        if self._self_replica in topic.holders(number):
            return
        group, revision = topic.group(number), topic.placements[number].finished
        consensus = self._groups.get(group)
        if consensus is not None and consensus.configuration.revision > revision:
            # The table will say whether it is wanted again.
            return
        name = topic.partition_name(number)
        self._placed.pop(group, None)
        self._partitions.discard(group)
        # Until it has left: whatever happens, the next look goes on.
        self._strays.add(group)
        try:
            has_left = await self._groups.leave(group, revision)
        except MismatchedLogError:
            # An earlier process had it. It leaves with the end of its log, which must be read.
            has_left = False
        except StorageError as error:
            self._note_unleft(group, name, error)
            return
        self._unleft.pop(group, None)
        if has_left:
            self.failed.pop(group, None)
            self.reopening.discard(group)
            self._strays.discard(group)
            if consensus is not None:
                _logger.info("partition %s has left: it was moved to other brokers", name)
            return
        await self._start(topic, number, topic.created_on(number))
        if group in self._placed:
            self._strays.discard(group)
            # The next look judges what is open now.
            self._changed.set()

    async def _has_left_or_stayed(self, topic: Topic, number: int) -> bool:
        """Whether a replica that is not open is whole, or gone. One that was on its way out goes first."""
        group = topic.group(number)
        try:
            await self._groups.leave(group, topic.placements[number].finished)
        except MismatchedLogError:
            return True
        except StorageError as error:
            self._note_unleft(group, topic.partition_name(number), error)
            return False
        return True

    def _note_unleft(self, group: GroupId, name: str, error: StorageError) -> None:
        if self._unleft.get(group) != str(error):
            _logger.error("%s, which was moved to other brokers, has not left: %s", name, error)
        self._unleft[group] = str(error)

    def _note_stray(self, group: GroupId) -> None:
        topic, number = self._topics.get_by_id(topic_of(group)), number_of(group)
        if topic is not None and number in topic.placements and self._self_replica not in topic.holders(number):
            self._strays.add(group)

    # -- removals -----------------------------------------------------------------------------------------------

    def _forget(self, topic: Topic) -> None:
        for number, replicas in enumerate(topic.replicas):
            group = topic.group(number)
            self._leadership.forget(group)
            self.failed.pop(group, None)
            self.reopening.discard(group)
            self._strays.discard(group)
            self._unleft.pop(group, None)
            # A partition that was moved may have left its gravestone here.
            if self._self_replica in replicas or number in topic.placements:
                self._unremoved[group] = (topic.partition_name(number), "")

    async def _find_leftovers(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                groups = await self._groups.partitions_on_disk()
        except (StorageError, TimeoutError) as error:
            why = "the disk hangs" if isinstance(error, TimeoutError) else reason_of(error)
            if self._leftovers_refused != why:
                _logger.error("what is left of deleted topics cannot be found: %s", why)
            self._leftovers_refused = why
            return
        self._has_leftovers = False
        # Without a confirmed leader of raft0 before it (`remove_leftovers`), a table that lags would lack topics that
        # exist, and this loop would delete replicas that hold committed records (D1 of RFC 0012).
        for group in groups:
            if self._topics.get_by_id(topic_of(group)) is None:
                self._unremoved.setdefault(group, (f"group {group}", ""))
            elif group not in self._placed and group not in self._steps.under_way:
                self._note_stray(group)

    async def _remove(self, name: str, group: GroupId) -> None:
        self._placed.pop(group, None)
        self._partitions.discard(group)
        try:
            was_here = await self._groups.remove(group)
        except StorageError as error:
            refused = (name, str(error))
            if self._unremoved.get(group) != refused:
                _logger.error("%s, whose topic is deleted, was not removed: %s", name, error)
            self._unremoved[group] = refused
        else:
            self._unremoved.pop(group, None)
            if was_here:
                _logger.info("removed %s, whose topic is deleted", name)


def _is_damaged(consensus: Consensus | None) -> bool:
    """Whether a replica has stopped because a read found damage; its peers have what is lost."""
    return consensus is not None and consensus.failure is not None and consensus.failure is consensus.damage
