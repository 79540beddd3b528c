"""Bugs in how members change (Raft thesis, chapter 4; RFC 0019)."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import raft.election_timer
import raft.reconfiguration_stm
import raft.replica_directories
import raft.vote_stm
from cluster.admin_messages import AdminReply
from cluster.admin_requests import AdminRequests
from cluster.commands import FinishPlacement
from cluster.controller_backend import ControllerBackend
from cluster.errors import NoReassignmentError, UnknownTopicError
from cluster.feature_table import FeatureTable
from cluster.placement import Placement
from cluster.placement_reports import PlacementReports
from cluster.placements import PlacementReport, Placements, ReachedPlacement
from cluster.topic_table import Topic
from model.ids import NO_INDEX, RAFT0, ConsistencyLevel, GroupId, Index, Replica, Term
from raft import membership_steps
from raft.configuration_entry import encode_configuration
from raft.configuration_log import ConfigurationLog
from raft.consensus import Consensus
from raft.gravestone import Gravestone, gravestone_key
from raft.group_configuration import GroupConfiguration, Revision
from raft.group_manager import GroupManager
from raft.membership_steps import Append, Step, Target
from raft.reconfiguration_stm import Reconfiguration
from raft.replicate_item import NewEntry
from raft.rules import agreement
from raft.rules.election import LogEnd
from storage.entry import EntryKind
from storage.kvstore import KvStore
from storage.log import Log


class _Told:
    """Says of an object what was told, and for the rest what is true."""

    def __init__(self, real: object, **told: Any) -> None:
        self._real = real
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return self._told[name] if name in self._told else getattr(self._real, name)


class _Eager(_Told):
    """The state of a replica, which takes itself for in office as soon as it leads."""

    @property
    def is_in_office(self) -> bool:
        """Whether it leads."""
        return bool(self._real.is_leader)  # type: ignore[attr-defined]


def configurations_precede_the_barrier(patch: pytest.MonkeyPatch) -> None:
    """A new leader changes members before an entry of its own term is committed."""
    begin, begin_leadership = Reconfiguration.__init__, Consensus._begin_leadership

    def begun(way: Reconfiguration, context: Any, *others: Any) -> None:
        begin(way, context, *others)
        configurations = _Told(context.state.configurations, is_committed=True)
        way._context = _Told(context, state=_Eager(context.state, configurations=configurations))  # type: ignore[assignment]

    def lead(consensus: Consensus) -> None:
        begin_leadership(consensus)
        consensus.reconfiguration.look()

    patch.setattr(Reconfiguration, "__init__", begun)
    patch.setattr(Consensus, "_begin_leadership", lead)


def two_configurations_are_under_way(patch: pytest.MonkeyPatch) -> None:
    """A leader appends the next configuration before the last one is committed."""
    begin = Reconfiguration.__init__

    def begun(way: Reconfiguration, context: Any, *others: Any) -> None:
        begin(way, context, *others)
        configurations = _Told(context.state.configurations, is_committed=True)
        way._context = _Told(context, state=_Told(context.state, configurations=configurations))  # type: ignore[assignment]

    async def append(way: Reconfiguration, configuration: GroupConfiguration) -> None:
        entry = NewEntry(EntryKind.CONFIGURATION, encode_configuration(configuration), 0)
        term = way._context.state.term
        stages = way._batcher.replicate([entry], ConsistencyLevel.QUORUM_ACK, expected_term=term)
        stages.replicated.add_done_callback(lambda done: done.cancelled() or done.exception())
        await stages.enqueued
        await asyncio.sleep(0.002)  # As in the bug: it goes on without waiting for the commit.

    patch.setattr(Reconfiguration, "__init__", begun)
    patch.setattr(Reconfiguration, "_append", append)


def voters_change_in_one_step(patch: pytest.MonkeyPatch) -> None:
    """A leader leaves the joint configuration out, and goes from the old voters to the new ones."""

    def next_step(current: GroupConfiguration, target: Target, *asked: Any) -> Step:
        step = membership_steps.next_step(current, target, *asked)
        if isinstance(step, Append) and step.configuration.is_joint:
            joint = step.configuration
            return Append(GroupConfiguration(joint.voter_sets[-1:], joint.learners, joint.revision))
        return step

    patch.setattr(raft.reconfiguration_stm, "next_step", next_step)


def joint_configurations_elect_by_one_set(patch: pytest.MonkeyPatch) -> None:
    """A majority of the new voters elects, whatever the old ones say."""
    has_majority = agreement.has_majority
    for module in (raft.vote_stm, raft.election_timer):
        patch.setattr(module, "has_majority", lambda quorums, granted: has_majority(quorums[-1:], granted))


def truncations_keep_the_newer_configuration(patch: pytest.MonkeyPatch) -> None:
    """A configuration stays in force when its entry is cut off."""
    patch.setattr(ConfigurationLog, "truncate", lambda log, first_removed: None)


def configurations_are_cut_before_the_log(patch: pytest.MonkeyPatch) -> None:
    """A follower goes back to the former configuration, and only then looks up where to cut. Look-ups are slow."""
    truncate = Log.truncate

    async def truncated(log: Log, first_removed: Index, on_cut: Callable[[], object]) -> None:
        on_cut()
        await asyncio.sleep(0.001)  # The slow disk.
        await truncate(log, first_removed)

    patch.setattr(Log, "truncate", truncated)


def learners_are_promoted_by_what_they_have_written(patch: pytest.MonkeyPatch) -> None:
    """A learner votes once it has written what is committed, fsynced or not."""

    def is_caught_up(way: Reconfiguration, learner: Replica) -> bool:
        follower = way._context.state.followers.get(learner.node_id)
        return follower is not None and follower.position.dirty >= way._commits[0][1]

    patch.setattr(Reconfiguration, "_is_caught_up", is_caught_up)


def moves_finish_whatever_their_revision(patch: pytest.MonkeyPatch) -> None:
    """That an earlier target was reached ends the move to another one. Reports are slow, as a network may make them."""
    finish, report = Placement.finish, PlacementReports._report

    def finished(placement: Placement, revision: Revision) -> tuple[Placement, tuple[Replica, ...]]:
        return finish(placement, revision if placement.move is None else placement.move.revision)

    async def reported(reports: PlacementReports, reached: list[ReachedPlacement]) -> None:
        await asyncio.sleep(3.0)  # The slow network.
        await report(reports, reached)

    async def propose(placements: Placements, request: PlacementReport, deadline: float) -> AdminReply:
        index = placements._controller.applied_index
        for reached in request.reached:
            with contextlib.suppress(NoReassignmentError, UnknownTopicError):
                command = FinishPlacement(reached.group, reached.revision)
                index = await placements._controller.propose(command, deadline)
        return AdminReply("", "", applied_index=index)

    patch.setattr(Placement, "finish", finished)
    patch.setattr(PlacementReports, "_report", reported)
    patch.setattr(Placements, "_finish", propose)


def replicas_leave_by_tables_that_nobody_has_confirmed(patch: pytest.MonkeyPatch) -> None:
    """A broker lets replicas leave as soon as its own tables, however old, do not name it."""
    start = ControllerBackend.start

    def begun(backend: ControllerBackend) -> None:
        backend._is_confirmed = backend._has_leftovers = True
        start(backend)

    patch.setattr(ControllerBackend, "start", begun)


def replicas_leave_whatever_their_logs_say(patch: pytest.MonkeyPatch) -> None:
    """A replica leaves although its log has a configuration of a later revision than the tables."""
    leave = GroupManager.leave
    latest = Revision(1 << 30, 0)

    async def left(groups: GroupManager, group: GroupId, revision: Revision) -> bool:
        return await leave(groups, group, latest)

    async def leave_at_once(backend: ControllerBackend, topic: Topic, number: int) -> None:
        topic = backend._topics.get_by_id(topic.topic_id) or topic
        group = topic.group(number)
        if backend._self_replica not in topic.holders(number) and backend._groups.get(group) is not None:
            await asyncio.sleep(2.0)  # The slow disk: the partition may be wanted here again by then.
            backend._placed.pop(group, None)
            backend._partitions.discard(group)
            await backend._groups.leave(group, topic.placements[number].finished)

    patch.setattr(GroupManager, "leave", left)
    patch.setattr(ControllerBackend, "_leave", leave_at_once)


def replicas_that_have_left_still_grant_votes(patch: pytest.MonkeyPatch) -> None:
    """A replica writes its gravestone first, and ends its fibers later."""
    leave = GroupManager.leave

    async def left(groups: GroupManager, group: GroupId, revision: Revision) -> bool:
        consensus = groups.get(group)
        if consensus is None or consensus.configuration.revision > revision:
            return await leave(groups, group, revision)
        await groups._directories.begin_leaving(group, consensus.state.log_end)
        await asyncio.sleep(1.0)  # The late end of the fibers.
        await groups.close(group)
        await groups._directories.finish_leaving(group)
        return True

    patch.setattr(GroupManager, "leave", left)


def gravestones_are_empty(patch: pytest.MonkeyPatch) -> None:
    """A replica that leaves forgets its term, its vote and the end of its log."""

    def put(kvstore: KvStore, group: GroupId, log_end: LogEnd) -> None:
        nothing = Gravestone(Term(0), None, NO_INDEX, Term(0))
        kvstore.put(gravestone_key(group), msgspec.msgpack.encode(nothing))

    patch.setattr(raft.replica_directories, "put_gravestone", put)


def moves_leave_out_a_replica(patch: pytest.MonkeyPatch) -> None:
    """A group takes all but the last of the replicas that it is moved to, and reports that it has been moved."""
    reconfigure = Consensus.reconfigure

    def reconfigured(consensus: Consensus, target: Target) -> None:
        if consensus.group != RAFT0 and len(target.voters) > 1:
            target = Target(target.voters[:-1], target.revision, target.retired, target.learners)
        reconfigure(consensus, target)

    patch.setattr(Consensus, "reconfigure", reconfigured)


def moves_need_no_level(patch: pytest.MonkeyPatch) -> None:
    """Partitions move before all brokers can read what that writes."""

    async def raise_nothing(admin: AdminRequests, deadline: float) -> None:
        pass

    patch.setattr(FeatureTable, "require", lambda *_: None)
    patch.setattr(AdminRequests, "_raise_first_levels", raise_nothing)
