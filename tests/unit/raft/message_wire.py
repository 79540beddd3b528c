"""The wire of a transcript: every request and every reply lies on it until the script delivers or loses it."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from model.ids import DirectoryId, NodeId, Replica
from raft.client import Buffer
from raft.configuration_entry import decode_configuration
from raft.group_configuration import NO_REVISION, GroupConfiguration
from raft.messages import (
    AppendEntriesReply,
    AppendEntriesRequest,
    CompactionBoundsReply,
    CompactionBoundsRequest,
    Heartbeat,
    HeartbeatReply,
    HeartbeatRequest,
    InstallSnapshotRequest,
    RecoveryCreditReply,
    RecoveryCreditRequest,
    StepDownAck,
    StepDownNotice,
    TimeoutNowReply,
    TimeoutNowRequest,
    VoteReply,
    VoteRequest,
)
from rpc.errors import LinkDownError
from storage.entry import Entry, EntryKind, parse_entries
from storage.errors import StorageError

Request = (
    AppendEntriesRequest
    | HeartbeatRequest
    | InstallSnapshotRequest
    | VoteRequest
    | TimeoutNowRequest
    | StepDownNotice
    | CompactionBoundsRequest
    | RecoveryCreditRequest
)
Reply = (
    AppendEntriesReply
    | CompactionBoundsReply
    | HeartbeatReply
    | VoteReply
    | TimeoutNowReply
    | StepDownAck
    | RecoveryCreditReply
)


@dataclass(slots=True, eq=False)
class Message:
    """One request, or (`reply` set) the answer on its way back. `future` is what the sender of the request holds."""

    source: int
    target: int
    request: Request
    payload: bytes
    future: "asyncio.Future[Any]"
    reply: Reply | None = None

    def __str__(self) -> str:
        text = render_request(self.request, self.payload) if self.reply is None else render_reply(self)
        return f"n{self.source} -> n{self.target} {text}"


class Wire:
    """Messages in flight, oldest first, and which nodes are cut off."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.in_flight: list[Message] = []
        self.is_cut: dict[int, bool] = {}

    def joins(self, one: int, other: int) -> bool:
        return not self.is_cut.get(one) and not self.is_cut.get(other)

    def send(self, source: int, target: int, request: Request, payload: bytes = b"") -> "asyncio.Future[Any]":
        future = self.loop.create_future()
        if self.joins(source, target):
            self.in_flight.append(Message(source, target, request, payload, future))
        else:
            _fail(future, f"no link to node {target}")
        return future

    def send_back(self, message: Message, reply: Reply) -> None:
        """Put the answer to a request on the wire."""
        if not message.future.done():
            back = Message(message.target, message.source, message.request, message.payload, message.future, reply)
            self.in_flight.append(back)

    def take(self, wanted: Callable[[Message], bool]) -> Message | None:
        """Take the oldest message that is wanted off the wire."""
        for position, message in enumerate(self.in_flight):
            if wanted(message):
                return self.in_flight.pop(position)
        return None

    def lose(self, wanted: Callable[[Message], bool]) -> list[Message]:
        """Lose messages; whoever waits for an answer learns that the link is down."""
        lost = [message for message in self.in_flight if wanted(message)]
        self.in_flight = [message for message in self.in_flight if message not in lost]
        for message in lost:
            if not message.future.done():
                _fail(message.future, "the link was lost")
        return lost


def _fail(future: "asyncio.Future[Any]", reason: str) -> None:
    future.set_exception(LinkDownError(reason))
    # Nobody has to listen: what the script itself said has no sender.
    future.exception()


class WireClient:
    """`raft.client.RaftClient` of one node on the wire."""

    def __init__(self, wire: Wire, node_id: int) -> None:
        self._wire = wire
        self._node_id = node_id

    def is_up(self, node_id: NodeId) -> bool:
        return self._wire.joins(self._node_id, node_id)

    def has_room(self, node_id: NodeId, size: int) -> bool:
        return True

    def replica_of(self, node_id: NodeId) -> Replica | None:
        return replica(node_id) if self.is_up(node_id) else None

    def append_entries(
        self, node_id: NodeId, request: AppendEntriesRequest, entries: Sequence[Buffer]
    ) -> "asyncio.Future[AppendEntriesReply]":
        return self._wire.send(self._node_id, node_id, request, b"".join(entries))

    def install_snapshot(
        self, node_id: NodeId, request: InstallSnapshotRequest, chunk: Buffer
    ) -> "asyncio.Future[AppendEntriesReply]":
        return self._wire.send(self._node_id, node_id, request, bytes(chunk))

    def recovery_credit(self, node_id: NodeId, request: RecoveryCreditRequest) -> "asyncio.Future[RecoveryCreditReply]":
        return self._wire.send(self._node_id, node_id, request)

    def compaction_bounds(
        self, node_id: NodeId, request: CompactionBoundsRequest
    ) -> "asyncio.Future[CompactionBoundsReply]":
        return self._wire.send(self._node_id, node_id, request)

    def vote(self, node_id: NodeId, request: VoteRequest) -> "asyncio.Future[VoteReply]":
        return self._wire.send(self._node_id, node_id, request)

    def heartbeat(self, node_id: NodeId, request: HeartbeatRequest) -> "asyncio.Future[HeartbeatReply]":
        return self._wire.send(self._node_id, node_id, request)

    def timeout_now(self, node_id: NodeId, request: TimeoutNowRequest) -> "asyncio.Future[TimeoutNowReply]":
        return self._wire.send(self._node_id, node_id, request)

    def stepped_down(self, node_id: NodeId, notice: StepDownNotice) -> "asyncio.Future[StepDownAck]":
        return self._wire.send(self._node_id, node_id, notice)


def replica(node_id: int) -> Replica:
    """Return the replica that lives on a node of a transcript."""
    return Replica(NodeId(node_id), DirectoryId(f"{node_id:032x}"))


# -- how messages read ----------------------------------------------------------------------------------------------


def render_request(request: Request, payload: bytes) -> str:
    match request:
        case VoteRequest():
            kind = "pre-vote" if request.pre else "vote for a transfer" if request.transfer else "vote"
            return f"{kind} t{request.term} log ends {request.last_index}@{request.last_term}"
        case AppendEntriesRequest():
            entries = [_render_entry(parsed.entry) for parsed in parse_entries(memoryview(payload))]
            return (
                f"append t{request.term} after {request.prev_index}@{request.prev_term} [{', '.join(entries)}]"
                f" commit {request.commit} visible {request.visible}{' flush' * request.flush}"
            )
        case TimeoutNowRequest():
            return f"timeout-now t{request.term} up to {request.last_index}"
        case StepDownNotice():
            return f"stepped-down t{request.term}"
        case CompactionBoundsRequest():
            return f"bounds {' '.join(f't{each.term} deletes to {each.deletes_to}' for each in request.bounds)}"
        case RecoveryCreditRequest():
            return f"credit for {request.size} bytes"
        case HeartbeatRequest():
            return f"beat {' '.join(map(_render_beat, request.beats))}"
        case InstallSnapshotRequest():
            return (
                f"snapshot t{request.term} start {request.start.index} offset {request.start.offset}"
                f" after t{request.start.prev_term} applied {request.applied_index}@{request.applied_term}"
                f" bytes {request.position}-{request.position + len(payload)} of {request.size}"
                + (f" compacted {request.compacted_index}" if request.compacted_index else "")
            )


def _render_entry(entry: Entry) -> str:
    text = f"{entry.index}@{entry.term}"
    if entry.kind is EntryKind.CONFIGURATION:
        try:
            return f"{text} {render_configuration(decode_configuration(entry.payload))}"
        except StorageError as error:
            return f"{text} configuration that {error}"
    if entry.kind is EntryKind.PLACEHOLDER:
        return f"{entry.index} to {entry.last_index}@{entry.term}"
    return f"{text} barrier" if entry.kind is EntryKind.BARRIER else text


def render_configuration(configuration: GroupConfiguration) -> str:
    """Return voters and learners by node, and the revision where there is one."""
    sets = " and ".join("+".join(str(each.node_id) for each in voters) for voters in configuration.voter_sets)
    learners = "+".join(str(each.node_id) for each in configuration.learners)
    text = f"{'joint ' * configuration.is_joint}voters {sets}{f' learners {learners}' if learners else ''}"
    return text if configuration.revision == NO_REVISION else f"{text} r{configuration.revision.raft0_index}"


def _render_beat(beat: Heartbeat) -> str:
    prev = "light" if beat.prev_index < 0 else f"at {beat.prev_index}@{beat.prev_term}"
    return f"t{beat.term} {prev} commit {beat.commit} visible {beat.visible}"


def render_reply(message: Message) -> str:
    reply = message.reply
    match reply:
        case VoteReply():
            assert isinstance(message.request, VoteRequest)
            kind = "pre-vote" if message.request.pre else "vote"
            verdict = "granted" if reply.granted else f"refused ({reply.reason})"
            return f"{kind} {verdict} t{reply.term} log ends {reply.last_index}@{reply.last_term}"
        case AppendEntriesReply():
            return _render_append_reply(reply)
        case HeartbeatReply():
            return f"beat {' '.join(map(_render_append_reply, reply.replies))}"
        case TimeoutNowReply():
            return f"timeout-now {'accepted' if reply.accepted else f'refused ({reply.reason})'} t{reply.term}"
        case CompactionBoundsReply():
            return f"bounds clean to {' '.join(map(str, reply.clean))}"
        case RecoveryCreditReply():
            return f"credit {'granted' if reply.is_granted else 'refused'} in {reply.wait_us} us, rate {reply.rate}"
        case StepDownAck():
            return "stepped-down taken"
        case None:
            raise AssertionError("a request has no reply")


def _render_append_reply(reply: AppendEntriesReply) -> str:
    return f"{reply.status.name.lower()} t{reply.term} match {reply.match} dirty {reply.dirty} flushed {reply.flushed}"
