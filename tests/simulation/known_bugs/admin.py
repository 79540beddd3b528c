"""Bugs in raft0 and in what it is asked for: topics, producer ids."""

import contextlib

import pytest

from cluster.admin_messages import AdminReply
from cluster.admin_requests import AdminRequests
from cluster.commands import RegisterBroker, encode_command
from cluster.controller import Controller
from cluster.controller_backend import ControllerBackend
from cluster.controller_sizes import ControllerSizes
from cluster.controller_state import ControllerState
from cluster.controller_tables import ControllerTables
from cluster.errors import ControllerUnavailableError, ProducerIdsTakenError
from cluster.producer_id_table import ProducerIdTable
from cluster.topic_table import Topic
from model.ids import ConsistencyLevel, GroupId, Index
from raft.consensus import Consensus
from raft.replica_directories import ReplicaDirectories, clean_key, marker_key
from raft.replicate_item import NewEntry
from raft.vote_floor import floor_key
from raft.vote_store import vote_key
from storage.entry import EntryKind
from tests.simulation.world.cluster import TOPIC


def deletion_takes_the_first_topic(patch: pytest.MonkeyPatch) -> None:
    """A broker that applies the deletion of a topic removes the replicas of the first topic in its table as well."""
    forget = ControllerBackend._forget

    def forget_both(backend: ControllerBackend, topic: Topic) -> None:
        forget(backend, topic)
        for other in backend._topics.all()[:1]:
            forget(backend, other)

    patch.setattr(ControllerBackend, "_forget", forget_both)


def deletion_leaves_the_replicas_behind(patch: pytest.MonkeyPatch) -> None:
    """A broker that applies the deletion of a topic keeps its replicas, on disk and in its groups."""

    async def remove(backend: ControllerBackend, topic: str, group: GroupId) -> None:
        backend._partitions.discard(group)

    patch.setattr(ControllerBackend, "_remove", remove)


def deletion_leaves_the_directories_behind(patch: pytest.MonkeyPatch) -> None:
    """A broker that deletes a replica stops it and forgets its vote, and never deletes its directory."""

    async def keep_directory(directories: ReplicaDirectories, group: GroupId) -> None:
        for key in (vote_key(group), floor_key(group), clean_key(group), marker_key(group)):
            directories._kvstore.delete(key)

    patch.setattr(Consensus, "remove", Consensus.stop)
    patch.setattr(ReplicaDirectories, "finish_removal", keep_directory)


def one_broker_opens_no_replicas_of_new_topics(patch: pytest.MonkeyPatch) -> None:
    """Broker 3 opens the replicas of the first topic, and none of those that are created later."""
    start = ControllerBackend._start

    async def start_or_not(backend: ControllerBackend, topic: Topic, number: int, replicas) -> None:
        if backend._self_replica.node_id != 3 or topic.name == TOPIC:
            await start(backend, topic, number, replicas)

    patch.setattr(ControllerBackend, "_start", start_or_not)


def registrations_are_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    """A broker that believes to lead raft0 answers a registration at once, without asking a majority."""

    async def register(requests: AdminRequests, request, deadline: float) -> AdminReply:
        controller = requests._controller
        async with controller.admission:
            controller.require_office()
            index = controller.consensus.state.commit_index
            if controller.members.get(request.broker.node_id) != request.broker:
                index = await controller.propose(RegisterBroker(request.broker), deadline)
            return AdminReply("", "", applied_index=index)

    patch.setattr(AdminRequests, "_register_broker", register)


def registrations_are_answered_with_the_applied_index(patch: pytest.MonkeyPatch) -> None:
    """raft0's leader answers a registration with how far it has applied, which lags behind what is committed."""

    async def register(requests: AdminRequests, request, deadline: float) -> AdminReply:
        controller = requests._controller
        async with controller.admission:
            controller.require_office()
            if controller.members.get(request.broker.node_id) != request.broker:
                await controller.propose(RegisterBroker(request.broker), deadline)
            return AdminReply("", "", applied_index=controller.applied_index)

    patch.setattr(AdminRequests, "_register_broker", register)


def topics_are_judged_by_a_leader_that_nobody_confirmed(patch: pytest.MonkeyPatch) -> None:
    """raft0's leader looks into its tables without asking a majority whether it still leads."""

    async def believe(controller: Controller, deadline: float) -> Index:
        controller.require_office()
        return controller.consensus.state.commit_index

    patch.setattr(Controller, "confirm_office", believe)


def leftovers_are_judged_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """A broker deletes what is not in its tables as soon as it has started, before anybody has told it how old they are."""
    start = ControllerBackend.start

    def start_and_remove(backend: ControllerBackend) -> None:
        start(backend)
        backend.remove_leftovers()

    patch.setattr(ControllerBackend, "start", start_and_remove)


def producer_ids_are_given_away_twice(patch: pytest.MonkeyPatch) -> None:
    """raft0 gives every broker that asks the block of producer ids that it gave the one before."""

    def apply_allocate(table: ProducerIdTable, block) -> None:
        if block.first != table.next_id:
            raise ProducerIdsTakenError(f"{table.next_id} is next")

    patch.setattr(ProducerIdTable, "apply_allocate", apply_allocate)


def restored_tables_forget_the_next_producer_id(patch: pytest.MonkeyPatch) -> None:
    """A raft0 that begins from a snapshot counts the blocks of producer ids from zero."""
    replace = ControllerTables.replace

    def replace_and_forget(tables: ControllerTables, contents) -> None:
        replace(tables, contents)
        tables.producer_ids.next_id = 0

    patch.setattr(ControllerTables, "replace", replace_and_forget)


def topic_changes_are_answered_before_they_are_committed(patch: pytest.MonkeyPatch) -> None:
    """raft0's leader answers a command as soon as it has taken it."""
    propose = Controller.propose

    async def propose_and_go_on(controller: Controller, command, deadline: float) -> Index:
        if not controller.is_in_office:
            return await propose(controller, command, deadline)
        entry = NewEntry(EntryKind.COMMAND, encode_command(command), 0)
        controller.consensus.replicate([entry], ConsistencyLevel.QUORUM_ACK, expected_term=controller.consensus.term)
        return controller.consensus.log.dirty_index

    patch.setattr(Controller, "propose", propose_and_go_on)


def unanswered_topic_change_is_a_success(patch: pytest.MonkeyPatch) -> None:
    """raft0's leader answers a command whose outcome it does not know as if it were applied."""
    propose = Controller.propose

    async def propose_and_hope(controller: Controller, command, deadline: float) -> Index:
        with contextlib.suppress(ControllerUnavailableError):
            return await propose(controller, command, deadline)
        return controller.applied_index

    patch.setattr(Controller, "propose", propose_and_hope)


def topics_are_created_whatever_the_tables_have(patch: pytest.MonkeyPatch) -> None:
    """raft0's leader does not ask whether its tables have room for a topic."""
    patch.setattr(ControllerState, "admit", lambda state, entry: None)


def altered_tables_are_not_measured_again(patch: pytest.MonkeyPatch) -> None:
    """The size of raft0's tables does not shrink with a deletion: one day nothing can be created any more."""
    replace = ControllerSizes.replace

    def grown(sizes: ControllerSizes, before, after) -> None:
        if after is not None:
            replace(sizes, before, after)

    patch.setattr(ControllerSizes, "replace", grown)
