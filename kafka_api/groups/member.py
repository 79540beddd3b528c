"""One member of a group."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cluster.groups.records import StoredMember
from kafka_api.groups.group_events import Join, Ticket
from kafka_api.groups.member_memory import text_bytes

Protocols = tuple[tuple[str, bytes], ...]

# What a member costs on top of its names, metadata and assignment.
_OVERHEAD_BYTES = 1024
_PROTOCOL_BYTES = 128


@dataclass(slots=True, eq=False)
class Member:
    """Who it is, what it can, what it has been given, and what it waits for.

    Attributes:
        session_deadline: It is removed then unless it is heard of, or waits for an answer.
        is_new: It has never completed a join; it may not wait for ever either.
        join_ticket, sync_ticket: The request of it that is not answered yet.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    session_deadline: float = 0.0
    is_new: bool = False
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = frozenset(name for name, _ in self.protocols)

    @property
    def is_awaiting_join(self) -> bool:
        """Whether it waits for the next generation."""
        return self.join_ticket is not None

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, about."""
        protocols = sum(_PROTOCOL_BYTES + text_bytes(name) + len(metadata) for name, metadata in self.protocols)
        names = text_bytes(self.member_id) + text_bytes(self.instance_id or "") + text_bytes(self.client_id)
        return _OVERHEAD_BYTES + names + protocols + len(self.assignment)

    def metadata(self, protocol: str | None) -> bytes:
        """Return what it said about a protocol; empty for one that it does not have."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the first of its protocols that is a candidate; there is one."""
        return next(name for name, _ in self.protocols if name in candidates)

    def adopt(self, request: Join) -> None:
        """Take over what a new join says."""
        self.protocols = request.protocols
        self.names = frozenset(name for name, _ in request.protocols)
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.client_id, self.client_host = request.client_id, request.client_host

    def keeps_alive(self) -> bool:
        """Whether it cannot be expected to send heartbeats now: it waits for us."""
        return not self.is_new and (self.is_awaiting_join or self.sync_ticket is not None)

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        """Return it as it is written with an assignment."""
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )


def new_member(member_id: str, request: Join) -> Member:
    """Return the member that a join makes."""
    return Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
        is_new=True,
    )


def restored_member(stored: StoredMember, protocol: str | None) -> Member:
    """Return the member that was written: of its protocols only the chosen one is known."""
    protocols: Sequence[tuple[str, bytes]] = () if protocol is None else ((protocol, stored.subscription),)
    return Member(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.session_timeout_ms,
        tuple(protocols),
        stored.assignment,
    )
