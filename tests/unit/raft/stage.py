"""Replicas of one group on one virtual loop; disks, links and time move only when the script says so.

Everything on stage is production code: Consensus with its log and kvstore. The seams around it are the simulator's
disk in memory, workers that finish without time passing (or are held), and a wire that delivers by hand.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import msgspec

from model.ids import ConsistencyLevel, GroupId, Index, NodeId, Offset, Term
from raft.call_figures import CallFigures
from raft.compaction_bounds import answer, ask_for_clean_indexes
from raft.configuration_log import ConfigurationLog
from raft.consensus import Consensus
from raft.errors import RaftError
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.group_configuration import GroupConfiguration, RaftPolicy
from raft.heartbeat_manager import HeartbeatManager
from raft.log_state import LogState, NoLogState
from raft.messages import (
    AppendEntriesReply,
    AppendEntriesRequest,
    CompactionBoundsReply,
    CompactionBoundsRequest,
    HeartbeatReply,
    HeartbeatRequest,
    InstallSnapshotRequest,
    RecoveryCreditRequest,
    StepDownAck,
    StepDownNotice,
    TimeoutNowRequest,
    VoteRequest,
)
from raft.node_limits import NodeLimits
from raft.node_resources import ConfigurationGuard, NodeResources, OpenGuard
from raft.options import RaftOptions
from raft.probe import RaftProbe
from raft.replica_log_state import ReplicaLogState
from raft.replica_opening import OpenedLog
from raft.replica_state import Role
from raft.replicate_item import NewEntry, ReplicateResult
from raft.service import check_snapshot_chunk, parse_run
from raft.vote_store import PersistedVote, vote_key
from runtime.environment import Environment
from runtime.gate import Gate
from storage.entry import Entry, EntryKind
from storage.log import Log
from storage.log_start import LogStart
from storage.memory_kvstore import MemoryKvStore
from storage.options import LogIdentity, LogOptions
from storage.placeholder import placeholder
from storage.snapshot_file import Snapshot
from tests.simulation.world.world import World
from tests.unit.raft.message_wire import Message, Request, Wire, WireClient, replica
from tests.unit.storage.log_harness import BATCH_HEADER_BYTES, StepWorkers, batch

GROUP = GroupId("story")
# Until here an `elect` must have done it.
_ELECTION_SECONDS = 10.0
_ROLES = {Role.FOLLOWER: "follower", Role.CANDIDATE: "candidate", Role.LEADER: "leader", Role.FAILED: "failed"}


@dataclass(slots=True, eq=False)
class Actor:
    """One node: what outlives its process (disk, kvstore content), and the process. Its replica's owner."""

    node_id: int
    workers: StepWorkers
    environment: Environment
    limits: NodeLimits
    durable: dict[str, bytes] = field(default_factory=dict)
    probe: RaftProbe = field(default_factory=RaftProbe)
    call_figures: CallFigures = field(default_factory=CallFigures)
    # Whether the node may hold configurations; the same object for all of its processes.
    guard: ConfigurationGuard = field(default_factory=OpenGuard)
    consensus: Consensus | None = None
    last_words: str = ""
    # Whom the readers of the replica have asked for a heartbeat, round by round.
    asked_soon: list[list[NodeId]] = field(default_factory=list)

    @property
    def directory(self) -> str:
        return f"/n{self.node_id}/log"

    def on_leadership(self, consensus: Consensus) -> None:
        """Nobody is told: the script looks."""

    def beat_soon(self, consensus: Consensus, nodes: Collection[NodeId]) -> None:
        """Note whom readers ask; without `beat` they wait."""
        self.asked_soon.append(list(nodes))

    def standing(self) -> str:
        """Role, term, leader and office, as one line."""
        assert self.consensus is not None
        state = self.consensus.state
        line = f"n{self.node_id} t{state.term} {_ROLES[state.role]}"
        if state.is_in_office:
            return f"{line} in office"
        if state.leader_id not in (None, self.node_id):
            return f"{line} of n{state.leader_id}"
        return line

    def status(self) -> str:
        """The whole state: one line, and for a leader one line more for each follower, as the leader knows it."""
        assert self.consensus is not None
        state, log = self.consensus.state, self.consensus.log
        terms = " ".join(str(log.term_at(Index(index))) for index in range(log.start_index, log.dirty_index + 1))
        if log.start_index > 1:
            terms = f"{log.start_index}: {terms}"
        vote = "nobody" if state.voted_for is None else f"n{state.voted_for}"
        own = (
            f"{self.standing()}, voted for {vote}, log [{terms}] flushed {log.flushed_index}"
            f" commit {state.commit_index} visible {state.visible_index}"
            + (f" compacted {log.compacted_index}" if log.compacted_index else "")
        )
        return "\n".join([own, *map(render_follower, state.followers.values())])


class Stage:
    """Use as a context manager."""

    def __init__(
        self,
        nodes: int,
        options: RaftOptions,
        min_in_sync: int = 1,
        log_state: Callable[[], LogState] = NoLogState,
    ) -> None:
        self.log_state = log_state
        self.world = World(seed=1)
        self.options = options
        self.events: list[str] = []
        self._machine = self.world.add_node(1)
        # The clock begins at 0, so that the seconds of a script add up without rounding.
        self._machine.loop.offset = 0.0
        self.wire = Wire(self._machine.loop)
        self.configuration = GroupConfiguration.of(tuple(map(replica, range(1, nodes + 1))))
        self._policy = RaftPolicy(min_in_sync)
        self.actors = {node_id: self._actor(node_id) for node_id in range(1, nodes + 1)}

    def _actor(self, node_id: int) -> Actor:
        workers, machine = StepWorkers(), self._machine.environment
        machine.files.mkdir(f"/n{node_id}")
        rng = self.world.stream(f"actor/{node_id}")
        environment = Environment(machine.wall_clock, machine.files, machine.network, rng, workers)
        return Actor(node_id, workers, environment, NodeLimits.of(NodeId(node_id), self.options))

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        self.world.close()

    @property
    def disk(self) -> Any:
        """The disk in memory that all nodes share; a node's files lie under `/n<id>/`."""
        return self._machine.disk

    def replica(self, node_id: int) -> Consensus:
        consensus = self.actors[node_id].consensus
        assert consensus is not None, f"node {node_id} has not started"
        return consensus

    # -- time ---------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything go on that can without time passing."""
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        self.world.run_until(self.world.time + seconds)
        self.world.check()
        for actor in self.actors.values():
            if actor.consensus is not None and (words := actor.standing()) != actor.last_words:
                actor.last_words = words
                self.events.append(words)

    def call(self, function: Callable[[], Any]) -> None:
        """Call on the nodes' loop, without letting anything else go on first."""
        self._machine.loop.post(function)

    def run(self, coroutine: Any) -> Any:
        return self.world.run(self._machine, coroutine)

    # -- lives --------------------------------------------------------------------------------------------------

    def write_log(self, node_id: int, terms: list[int], counts: list[int] | None = None) -> None:
        """Prepare the log of a replica that has not started, and that it was durably in its last entry's term.

        The entries are those of `entries_after`.
        """
        actor = self.actors[node_id]
        if vote_key(GROUP) not in actor.durable:
            self.write_vote(node_id, terms[-1], None)

        async def write() -> None:
            log = await self._open(actor)
            await log.append(entries_after(log, 0, terms, counts))
            await log.flush()
            if counts and max(counts) > 1:
                # What a placeholder stands for is in the state.
                await log.raise_compacted(log.dirty_index)
                await log.save_snapshot(Snapshot(log.start, log.dirty_index, log.last_term, b""))
            await log.close()

        self.run(write())

    def write_vote(self, node_id: int, term: int, voted_for: int | None) -> None:
        """Prepare the stored vote of a replica that has not started."""
        self.actors[node_id].durable[vote_key(GROUP)] = msgspec.msgpack.encode(PersistedVote(term, voted_for))

    async def _open(self, actor: Actor) -> Log:
        identity = LogIdentity(GROUP, replica(actor.node_id).directory_id)
        return await Log.open(actor.environment, actor.directory, identity, LogOptions())

    def start(self, node_id: int) -> None:
        self.run(self._start(self.actors[node_id]))
        self.settle()

    async def _start(self, actor: Actor) -> None:
        log = await self._open(actor)
        stm = ReplicaLogState(log, self.log_state(), self.options, ConfigurationLog(self.configuration))
        await stm.replay()
        kvstore, client = MemoryKvStore(actor.environment, actor.durable), WireClient(self.wire, actor.node_id)
        node = NodeResources(actor.environment, self.options, replica(actor.node_id), kvstore, client, actor.guard)
        # They outlive the process here: a script looks at them afterwards.
        node.probe, node.limits, node.call_figures = actor.probe, actor.limits, actor.call_figures
        actor.consensus = Consensus(GROUP, node, actor, self._policy, OpenedLog(log, stm))
        actor.consensus.start()

    def stop(self, node_id: int) -> None:
        """Begin to end a replica's life; it ends once its jobs on the disk have."""
        actor, consensus = self.actors[node_id], self.replica(node_id)
        actor.consensus, actor.last_words = None, ""
        task = self._machine.spawn(consensus.stop())
        task.add_done_callback(lambda _: self.events.append(f"n{node_id} has stopped"))

    # -- what the script does -----------------------------------------------------------------------------------

    def stand(self, node_id: int) -> None:
        """Let the election deadline of a replica be due now."""
        deadline = self.replica(node_id)._election._deadline
        self.call(lambda: deadline.arm(self._machine.loop.time()))

    def beat(self, node_id: int) -> None:
        """Send the heartbeats of one tick."""
        disk = self.actors[node_id].limits.disk
        manager = HeartbeatManager(WireClient(self.wire, node_id), self.options, Gate("beat"), disk)
        leader = self.replica(node_id)
        self.call(lambda: manager._dispatch([(leader, leader.state.followers)]))

    def ask_for_clean_indexes(self, node_id: int) -> None:
        """Let a leader ask how far the logs of its followers are clean."""
        leader = self.replica(node_id)
        self.call(lambda: ask_for_clean_indexes(WireClient(self.wire, node_id), [leader]))

    def replicate(
        self, node_id: int, name: str, level: ConsistencyLevel, size: int, term: Term | None, within: float | None
    ) -> None:
        """Hand over one batch of `size` bytes; its two stages become events."""

        def call() -> None:
            loop = self._machine.loop
            payload = bytearray(batch(0, 1, 1000, size - BATCH_HEADER_BYTES))
            deadline = None if within is None else loop.time() + within
            entries = [NewEntry(EntryKind.DATA, payload, 1)]
            stages = self.replica(node_id).replicate(entries, level, expected_term=term, deadline=deadline)
            stages.enqueued.add_done_callback(lambda _: self.events.append(f"{name} enqueued"))
            stages.replicated.add_done_callback(lambda done: self.events.append(f"{name} {render_outcome(done)}"))

        self.call(call)

    def transfer(self, node_id: int, target: int | None) -> None:
        """Let a leader hand over; how that ends becomes an event."""
        self._machine.spawn(self._transfer(node_id, target))

    async def _transfer(self, node_id: int, target: int | None) -> None:
        try:
            leader = await self.replica(node_id).transfer.run(None if target is None else NodeId(target))
        except RaftError as error:
            self.events.append(f"n{node_id} does not hand over: {type(error).__name__}: {error}")
        else:
            self.events.append(f"n{node_id} has handed over to n{leader}")

    def read(self, node_id: int, name: str) -> None:
        """Begin a linearizable read; its end becomes an event."""

        async def confirm() -> None:
            barrier = self.replica(node_id).barrier
            try:
                await barrier.wait(barrier.arrive())
            except RaftError as error:
                self.events.append(f"{name} failed with {type(error).__name__}: {error}")
            else:
                self.events.append(f"{name} confirmed")

        self.call(lambda: self._machine.spawn(confirm()))

    def move_start(self, node_id: int, index: int, offset: int) -> None:
        """Let the leader propose that the log starts at an entry and offset; what comes of it becomes an event."""

        async def move() -> None:
            consensus = self.replica(node_id)
            start = LogStart(Index(index), Offset(offset), Offset(offset), consensus.log.term_at(Index(index - 1)))
            try:
                await consensus.move_log_start(start, consensus.term, self._machine.loop.time() + 60.0)
            except RaftError as error:
                self.events.append(f"log start stays: {type(error).__name__}: {error}")
            else:
                self.events.append(f"n{node_id} log starts at {consensus.log.start_index}")

        self._machine.spawn(move())

    def elect(self, node_id: int) -> None:
        """Bring a replica into office, its followers up to date, and say only what came of it."""
        spoken = len(self.events)
        for actor in self.actors.values():
            if actor.consensus is not None:
                actor.consensus._election._heard_at = None
                actor.consensus._election._reason = "the story says so"
        self.stand(node_id)
        self.settle()
        while not (consensus := self.replica(node_id)).is_in_office:
            assert self.world.time < _ELECTION_SECONDS, f"node {node_id} cannot be elected"
            self.deliver(lambda _: True)
            if not consensus.is_in_office:
                self.advance(self.options.longest_log_wait)
        self.beat(node_id)
        self.settle()
        self.deliver(lambda _: True)
        self.events[spoken:] = [actor.standing() for actor in self.actors.values() if actor.consensus is not None]

    # -- the wire -----------------------------------------------------------------------------------------------

    def deliver(self, wanted: Callable[[Message], bool]) -> None:
        """Deliver one message after the other until no wanted one is left on the wire."""
        while (message := self.wire.take(wanted)) is not None:
            self.events.append(str(message))
            self.hand_over(message)
            self.settle()

    def hand_over(self, message: Message) -> None:
        """Let a message arrive at its target."""
        if message.reply is not None:
            self.call(lambda: message.future.done() or message.future.set_result(message.reply))
        elif self.actors[message.target].consensus is None:
            self.call(lambda: self.wire.lose(lambda each: each is message))
        else:
            self._machine.spawn(self._serve(message))

    def say(self, source: int, target: int, request: Request, payload: bytes = b"") -> None:
        """Let a request of the script itself arrive; the answer lies on the wire and concerns nobody."""
        message = Message(source, target, request, payload, self._machine.loop.create_future())
        self.events.append(str(message))
        self.hand_over(message)

    async def _serve(self, message: Message) -> None:
        consensus, source = self.replica(message.target), NodeId(message.source)
        reply: Any
        match message.request:
            case TimeoutNowRequest() as request:
                reply = consensus.voter.on_timeout_now(source, request)
            case StepDownNotice() as notice:
                consensus.voter.on_leader_stepped_down(source, notice)
                reply = StepDownAck()
            case VoteRequest() as request:
                reply = await consensus.voter.answer(source, request)
            case CompactionBoundsRequest() as request:
                reply = CompactionBoundsReply([answer(consensus, source, bound) for bound in request.bounds])
            case RecoveryCreditRequest() as request:
                throttle = self.actors[message.target].limits.throttle
                reply = throttle.give_credit(request.size, self._machine.loop.time())
            case HeartbeatRequest() as request:
                reply = HeartbeatReply(
                    [consensus.on_heartbeat(source, beat) for beat in request.beats],
                    self.actors[message.target].limits.disk.spare_bytes,
                )
            case AppendEntriesRequest() as request:
                reply = consensus.on_append_entries(source, request, parse_run(request, memoryview(message.payload)))
                if not isinstance(reply, AppendEntriesReply):
                    reply = await reply
            case InstallSnapshotRequest() as request:
                check_snapshot_chunk(request, memoryview(message.payload))
                reply = consensus.on_install_snapshot(source, request, message.payload)
                if not isinstance(reply, AppendEntriesReply):
                    reply = await reply
        self.wire.send_back(message, reply)


def entries_after(log: Log, prev_index: int, terms: list[int], counts: list[int] | None = None) -> list[Entry]:
    """Return entries of these terms, without records, that follow `prev_index`.

    Where `counts` says more than 1 it is a placeholder for so many.
    """
    entries = []
    index = Index(prev_index)
    for term, count in zip(terms, counts or [1] * len(terms), strict=True):
        first, index, offset = Index(index + 1), Index(index + count), Offset(log.next_offset)
        if count > 1:
            entries.append(placeholder(first, index, Term(term), offset, offset))
        else:
            entries.append(Entry(first, Term(term), EntryKind.COMMAND, offset, 0, b"%d@%d" % (index, term)))
    return entries


def render_follower(follower: FollowerIndexMetadata) -> str:
    """Return what the leader knows of a follower: RFC 0004's state, positions, and who sends next."""
    standing = "probing" if follower.is_probing else "filling" if follower.needs_recovery else "in step"
    line = (
        f"  n{follower.node_id} {standing}: match {follower.match_index} dirty {follower.dirty_index}"
        f" flushed {follower.flushed_index}, sent up to {follower.expected_log_end_index}"
    )
    if follower.in_flight:
        line += f", {follower.in_flight} in flight"
    if follower.is_recovering:
        line += ", recovery at work"
    elif follower.needs_recovery:
        line += ", recovery waits for an answer"
    return line


def render_outcome(done: "asyncio.Future[ReplicateResult]") -> str:
    """Return what the caller of `replicate` was told."""
    error = done.exception()
    if error is not None:
        return f"failed with {type(error).__name__}: {error}"
    result = done.result()
    return f"done: index {result.first_index} offset {result.base_offset} t{result.term}"
