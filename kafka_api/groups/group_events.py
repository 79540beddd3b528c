"""What goes into a group and what comes out of it. Times are seconds of the loop's clock, durations milliseconds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from cluster.groups.records import StoredGroup
from kafka_api.protocol.error_codes import ErrorCode

# Names the request that is answered; whoever hands a request in chooses it.
Ticket = int

# A member of no generation, as it says itself.
NO_GENERATION = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Somebody wants to be a member.

    Attributes:
        member_id: Empty for who has none yet.
        new_member_id: What it is called from now on if it has none: chance stays outside.
        protocols: Name and metadata, the preferred one first.
        must_know_id: It gets an id first and joins with that (version 4 on).
        can_skip_assignment: A leader that is told to skip the assignment understands it (version 9 on).
    """

    member_id: str
    new_member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    must_know_id: bool
    can_skip_assignment: bool


@dataclass(frozen=True, slots=True)
class Sync:
    """A member asks for its assignment; the leader brings everybody's. None: not told in its version."""

    member_id: str
    generation: int
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class Identity(NamedTuple):
    """Who a member says it is; `generation` is NO_GENERATION where it is not asked for."""

    member_id: str
    instance_id: str | None
    generation: int = NO_GENERATION


class JoinedMember(NamedTuple):
    """A member as the leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    """The answer to a Join; of an error only `member_id` counts beside it."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """The answer to a Sync."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Reply(NamedTuple):
    """Answer the request with this ticket."""

    ticket: Ticket
    result: JoinResult | SyncResult


class Store(NamedTuple):
    """Write this (its `state_timestamp` is still to be filled in), then call `Group.stored` with `number`."""

    number: int
    group: StoredGroup


class Wake(NamedTuple):
    """Call `Group.on_time` at this time, if it was not asked for at an earlier one."""

    at: float


Effect = Reply | Store | Wake
