"""One classic consumer group as a state machine: no clock, no chance, no I/O.

                     join                    all have joined, or time is up             leader's assignment is stored
    EMPTY --------------------> PREPARING ------------------------------> COMPLETING ------------------------> STABLE
      ^                          |   ^                                        |                                  |
      |    nobody has joined     |   |   somebody joins anew, leaves, is silent for too long, or does not sync   |
      +--------------------------+   +----------------------------------------+----------------------------------+

              killed: it is deleted (only without members), or this broker's term is over
    any state --------------------------------------------------------------------------> DEAD
                                                                                           |
    EMPTY <--------------------------------------------------------------------------------+
              revived: the deletion has failed

A request comes with the time of its arrival and a ticket; what the group wants done is taken from it by
`take_effects` after each call. Times only ever come in, and `on_time` is called when the last `Wake` is due.

Source: the classic protocol of Apache Kafka (KIP-62, KIP-134, KIP-345, KIP-394, KIP-429, KIP-814).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from cluster.groups.records import StoredGroup
from kafka_api.groups.group_events import (
    Effect,
    Identity,
    Join,
    JoinedMember,
    JoinResult,
    Reply,
    Store,
    Sync,
    SyncResult,
    Ticket,
    Wake,
)
from kafka_api.groups.member import Member, new_member, restored_member
from kafka_api.groups.members import Members
from kafka_api.groups.rebalance_timing import NEVER, NEW_MEMBER_SECONDS, STATIC_WINDOW_SECONDS_MIN, JoinWindow
from kafka_api.protocol.error_codes import ErrorCode

_GENERATION_MAX = 2**31 - 1
# Who names no member.
_NOBODY = Identity("", None)
# What an id costs that was given out, about.
_PENDING_BYTES = 512
# Seconds between two looks at the deadlines, for each so many members and ids.
_MANY = 1000
_PAUSE_OF_MANY = 0.01


class GroupState(Enum):
    """By the names that clients are told."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Group:
    """See the module.

    Args:
        initial_delay: How long the first generation waits for more members to come, seconds.
        max_size: Members it may have.
    """

    def __init__(self, initial_delay: float, max_size: int) -> None:
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.members = Members()
        # Ids that were given out and have not joined yet, until when.
        self.pending: dict[str, float] = {}
        self._max_size = max_size
        self._window = JoinWindow(initial_delay)
        # Who has not asked for the assignment of this generation, and until when it may.
        self._unsynced: set[str] = set()
        self._sync_deadline = NEVER
        self._stores: dict[int, Callable[[float, ErrorCode], None]] = {}
        self._store_number = 0
        self._is_storing_assignment = False
        self._effects: list[Effect] = []
        self._wake_at = NEVER

    def set_bounds(self, initial_delay: float, max_size: int) -> None:
        """Let these hold for whoever joins from now on; nobody is sent away."""
        self._max_size = max_size
        self._window.initial_delay = initial_delay

    @classmethod
    def restored(cls, stored: StoredGroup, now: float, initial_delay: float, max_size: int) -> "Group":
        """Return the group as it was stored; its members' sessions begin anew."""
        group = cls(initial_delay, max_size)
        group.generation = stored.generation
        group.protocol_type = stored.protocol_type
        group.protocol = stored.protocol
        for each in stored.members:
            member = restored_member(each, stored.protocol)
            group.members.add(member)
            group._touch(now, member)
        if stored.leader is not None and group.members.get(stored.leader) is not None:
            group.members.leader = stored.leader
        if stored.members:
            group.state = GroupState.STABLE
        return group

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost that is not stored."""
        return self.state in (GroupState.EMPTY, GroupState.DEAD) and not self.pending and not self._stores

    @property
    def size_bytes(self) -> int:
        """Memory of members and pending ids, about."""
        return self.members.size_bytes + _PENDING_BYTES * len(self.pending)

    def growth_bytes(self, request: Join) -> int:
        """How much more memory it will take, at most, for somebody who joins; a member may even take less."""
        known = self.members.get(request.member_id) or self.members.static(request.instance_id)
        before = 0 if known is None else known.size_bytes - len(known.assignment)
        return new_member(request.new_member_id, request).size_bytes - before

    def take_effects(self) -> list[Effect]:
        """Return what is to be done, in order, once."""
        effects, self._effects = self._effects, []
        return effects

    # -- requests -----------------------------------------------------------------------------------------------

    def join(self, now: float, request: Join, ticket: Ticket) -> None:
        """Somebody wants to be in the next generation; answered at once or when that begins."""
        refusal = self._refuse_join(request)
        if refusal is not None:
            self._refuse(ticket, refusal, request.member_id)
        elif request.member_id in self.pending and request.instance_id is None:
            del self.pending[request.member_id]
            self._add(now, request.member_id, request, ticket)
        elif request.member_id:
            self._join_again(now, request, ticket)
        elif (known := self.members.static(request.instance_id)) is not None:
            self._replace_static(now, known, request, ticket)
        elif request.must_know_id and request.instance_id is None:
            self.pending[request.new_member_id] = now + request.session_timeout_ms / 1000
            self._wake(self.pending[request.new_member_id])
            self._refuse(ticket, ErrorCode.MEMBER_ID_REQUIRED, request.new_member_id)
        else:
            self._add(now, request.new_member_id, request, ticket)

    def sync(self, now: float, request: Sync, ticket: Ticket) -> None:
        """A member wants its assignment; answered when the leader's is stored."""
        member = self._find(Identity(request.member_id, request.instance_id, request.generation))
        if isinstance(member, ErrorCode):
            self._reply(ticket, SyncResult(error=member))
        elif not self._is_same_protocol(request):
            self._reply(ticket, SyncResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        elif self.state is GroupState.PREPARING:
            self._reply(ticket, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
        elif self.state is GroupState.STABLE:
            self._note_synced(member)
            self._touch(now, member)
            self._reply(ticket, self._assignment_of(member))
        else:
            self._answer_sync(member, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync_ticket = ticket
            self._note_synced(member)
            if member.member_id == self.members.leader and not self._is_storing_assignment:
                self._store_assignment(request.assignments)

    def heartbeat(self, now: float, identity: Identity) -> ErrorCode:
        """A member is alive; the answer says whether it has to join again."""
        member = self._find(identity)
        if isinstance(member, ErrorCode):
            return member
        self._touch(now, member)
        is_moving = self.state is GroupState.PREPARING
        return ErrorCode.REBALANCE_IN_PROGRESS if is_moving else ErrorCode.NONE

    def leave(self, now: float, identity: Identity) -> ErrorCode:
        """A member goes; an administrator may name it by its instance id alone."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if identity.member_id in self.pending:
            del self.pending[identity.member_id]
            self._try_complete_join(now)
            return ErrorCode.NONE
        member = self.members.static(identity.instance_id) if not identity.member_id else None
        found = member or self.members.find(identity.member_id, identity.instance_id)
        if isinstance(found, ErrorCode):
            return found
        self._remove(now, found)
        return ErrorCode.NONE

    def check_commit(self, now: float, identity: Identity, *, is_transactional: bool = False) -> ErrorCode:
        """Whether offsets may be committed under this name; members count as heard of.

        In a transaction, as in Kafka: who names no member may commit, because producers before KIP-447 do not; and a
        member of the generation that is about to begin may, because its client takes REBALANCE_IN_PROGRESS for fatal.
        """
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if identity.generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE  # Nobody's partitions: somebody without a group, or an administrator.
        if is_transactional and identity == _NOBODY:
            return ErrorCode.NONE
        member = self._find(identity)
        if isinstance(member, ErrorCode):
            return member
        if self.state is GroupState.COMPLETING and not is_transactional:
            return ErrorCode.REBALANCE_IN_PROGRESS
        self._touch(now, member)
        return ErrorCode.NONE

    def kill(self, error: ErrorCode) -> None:
        """The group ends here: deleted, or this broker does not keep it any more. Whoever waits is told."""
        self.state = GroupState.DEAD
        self.pending.clear()
        self._unsynced.clear()
        # Nobody is waited for any more: a deadline that stays would be due again and again.
        self._sync_deadline = NEVER
        self._window.close()
        for member in self.members:
            self._answer_waiting(member, error)
            self.members.remove(member)
        # Nobody is left who could take this broker's word for its partitions.
        assert not len(self.members)

    def revive(self) -> None:
        """A group without members was not deleted after all."""
        assert self.state is GroupState.DEAD
        assert not len(self.members)
        self.state = GroupState.EMPTY

    # -- what was asked for ---------------------------------------------------------------------------------------

    def stored(self, now: float, number: int, error: ErrorCode) -> None:
        """A `Store` has ended; an error may mean that it is written all the same."""
        then = self._stores.pop(number, None)
        if then is not None:
            then(now, error)

    def on_time(self, now: float) -> None:
        """A `Wake` is due."""
        self._wake_at = NEVER
        for member_id in [each for each, deadline in self.pending.items() if deadline <= now]:
            del self.pending[member_id]
        gone = [each for each in self.members if each.session_deadline <= now and not each.keeps_alive()]
        if self._sync_deadline <= now:
            self._sync_deadline = NEVER
            gone += [each for each in self.members if each.member_id in self._unsynced and each not in gone]
        self._remove(now, *gone)
        if self._window.deadline <= now:
            self._on_join_deadline(now)
        else:
            self._try_complete_join(now)
        self._wake_next(now)

    # -- joining ------------------------------------------------------------------------------------------------

    def _refuse_join(self, request: Join) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self._is_full_for(request.member_id):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        if not request.protocol_type or not request.protocols:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if len(self.members):
            is_other_type = request.protocol_type != self.protocol_type
            if is_other_type or not self.members.supports_any([name for name, _ in request.protocols]):
                return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return None

    def _is_full_for(self, member_id: str) -> bool:
        member = self.members.get(member_id)
        if self.state is GroupState.PREPARING:
            return not (member is not None and member.is_awaiting_join) and self.members.joined >= self._max_size
        return member is None and len(self.members) >= self._max_size

    def _add(self, now: float, member_id: str, request: Join, ticket: Ticket) -> None:
        member = new_member(member_id, request)
        if not len(self.members):
            self.protocol_type = request.protocol_type
        self.members.add(member)
        self.members.await_join(member, ticket)
        member.session_deadline = now + NEW_MEMBER_SECONDS
        self._wake(member.session_deadline)
        self._window.note_new_member()
        self._rebalance(now)

    def _join_again(self, now: float, request: Join, ticket: Ticket) -> None:
        member = self.members.find(request.member_id, request.instance_id)
        if isinstance(member, ErrorCode):
            self._refuse(ticket, member, request.member_id)
            return
        has_changed = member.protocols != request.protocols
        is_leader = member.member_id == self.members.leader
        knows_all = self.state is GroupState.COMPLETING or (self.state is GroupState.STABLE and not is_leader)
        if knows_all and not has_changed:
            # The answer to its last join was lost.
            self._touch(now, member)
            self._reply(ticket, self._joined(member, tells_members=is_leader))
            return
        self._adopt(member, request, ticket)
        self._rebalance(now)

    def _adopt(self, member: Member, request: Join, ticket: Ticket) -> None:
        self.members.before_change(member)
        member.adopt(request)
        self.members.after_change(member)
        self._answer_join(member, ErrorCode.REBALANCE_IN_PROGRESS)
        self.members.await_join(member, ticket)

    def _replace_static(self, now: float, member: Member, request: Join, ticket: Ticket) -> None:
        """A static member has begun a new life, and its former one is fenced off (KIP-345)."""
        former_id, former_leader = member.member_id, self.members.leader or ""
        self._answer_waiting(member, ErrorCode.FENCED_INSTANCE_ID)
        self.members.rename(member, request.new_member_id)
        if former_id in self._unsynced:
            self._unsynced.add(member.member_id)
            self._unsynced.discard(former_id)
        self._adopt(member, request, ticket)
        self._touch(now, member)
        if self.state is not GroupState.STABLE or self.members.select_protocol() != self.protocol:
            self._rebalance(now)
            return
        # Nobody else notices, once its new id is stored.
        self.members.take_join_ticket(member)
        is_leader = member.member_id == self.members.leader
        self._store(
            {each.member_id: each.assignment for each in self.members},
            lambda _, error: self._answer_replaced(member, ticket, error, request, former_leader, is_leader=is_leader),
        )

    def _answer_replaced(
        self, member: Member, ticket: Ticket, error: ErrorCode, request: Join, former_leader: str, *, is_leader: bool
    ) -> None:
        if error is not ErrorCode.NONE:
            self._refuse(ticket, error, member.member_id)
        elif self.members.get(request.new_member_id) is not member:
            # It has been replaced once more, or removed, in the meantime.
            self._refuse(ticket, ErrorCode.UNKNOWN_MEMBER_ID, request.new_member_id)
        elif self.state is not GroupState.STABLE:
            self._refuse(ticket, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        elif request.can_skip_assignment:
            self._reply(ticket, self._joined(member, tells_members=is_leader, skip_assignment=is_leader))
        else:
            # Told of a leader that is not itself, it does not assign anew.
            self._reply(ticket, self._joined(member, tells_members=False, leader=former_leader))

    # -- rebalancing --------------------------------------------------------------------------------------------

    def _rebalance(self, now: float) -> None:
        """Let everybody join the next generation, unless they are at it."""
        if self.state is not GroupState.PREPARING:
            was_empty = self.state is GroupState.EMPTY
            self.state = GroupState.PREPARING
            self._unsynced.clear()
            self._sync_deadline = NEVER
            self._is_storing_assignment = False
            for member in self.members:
                if member.sync_ticket is not None:
                    self._answer_sync(member, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
                    self._touch(now, member)
            self._window.open(now, self.members.rebalance_timeout_ms() / 1000, is_first=was_empty)
        self._try_complete_join(now)
        self._wake(self._window.deadline)

    def _try_complete_join(self, now: float) -> None:
        is_open = self.state is GroupState.PREPARING and not self._window.waits_for_more
        if is_open and not self.pending and self.members.joined == len(self.members):
            self._complete_join(now)

    def _on_join_deadline(self, now: float) -> None:
        if self.state is not GroupState.PREPARING:
            return
        if self._window.extend(now):
            self._wake(self._window.deadline)
        else:
            self._complete_join(now)

    def _complete_join(self, now: float) -> None:
        """Begin the next generation with whoever has joined, and the static members."""
        # G2: in any other state the members of this generation own partitions.
        assert self.state is GroupState.PREPARING
        for member in self.members:
            if not member.is_awaiting_join and member.instance_id is None:
                self.members.remove(member)
        if len(self.members) and not self.members.elect_joined_leader():
            # Only static members, and none of them has come back yet: their sessions decide.
            seconds = max(STATIC_WINDOW_SECONDS_MIN, self.members.rebalance_timeout_ms() / 1000)
            self._window.open(now, seconds, is_first=False)
            self._wake(self._window.deadline)
            return
        self._window.close()
        self.generation = 1 if self.generation == _GENERATION_MAX else self.generation + 1
        if not len(self.members):
            self.state, self.protocol = GroupState.EMPTY, None
            self._store({}, lambda _now, _error: None)
            return
        self.state, self.protocol = GroupState.COMPLETING, self.members.select_protocol()
        self._unsynced = {member.member_id for member in self.members}
        self._sync_deadline = now + self.members.rebalance_timeout_ms() / 1000
        self._wake(self._sync_deadline)
        for member in self.members:
            member.is_new = False
            self._touch(now, member)
            self._wake(member.session_deadline)
            ticket = self.members.take_join_ticket(member)
            if ticket is not None:
                is_leader = member.member_id == self.members.leader
                self._reply(ticket, self._joined(member, tells_members=is_leader))

    def _store_assignment(self, assignments: Mapping[str, bytes]) -> None:
        # G2: one assignment for each generation. A second one could give a partition to another member.
        assert self.state is GroupState.COMPLETING
        assert not self._is_storing_assignment
        generation = self.generation
        given = {member.member_id: assignments.get(member.member_id, b"") for member in self.members}
        self._is_storing_assignment = True

        def stored(now: float, error: ErrorCode) -> None:
            if self.state is not GroupState.COMPLETING or self.generation != generation:
                # Whoever waited has been told to join again. Without this check members of this generation would get
                # parts of an older one, and two of them the same partition (G2).
                return
            self._is_storing_assignment = False
            if error is ErrorCode.NONE:
                self.state = GroupState.STABLE
            for member in self.members:
                if error is ErrorCode.NONE:
                    self.members.assign(member, given.get(member.member_id, b""))
                if member.sync_ticket is not None:
                    self._touch(now, member)
                    failed = SyncResult(error=error)
                    self._answer_sync(member, self._assignment_of(member) if error is ErrorCode.NONE else failed)
            if error is not ErrorCode.NONE:
                self._rebalance(now)

        self._store(given, stored)

    def _note_synced(self, member: Member) -> None:
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._sync_deadline = NEVER

    def _remove(self, now: float, *gone: Member) -> None:
        for member in gone:
            self._answer_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID)
            self.members.remove(member)
            self._unsynced.discard(member.member_id)
        if gone:
            self._rebalance(now)

    # -- answers ------------------------------------------------------------------------------------------------

    def _find(self, identity: Identity) -> Member | ErrorCode:
        """Return the member of the current generation that somebody is; what is refused here knows nothing."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        member = self.members.find(identity.member_id, identity.instance_id)
        if isinstance(member, Member) and identity.generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return member

    def _is_same_protocol(self, request: Sync) -> bool:
        is_same_type = request.protocol_type is None or request.protocol_type == self.protocol_type
        return is_same_type and (request.protocol is None or request.protocol == self.protocol)

    def _joined(
        self, member: Member, *, tells_members: bool, skip_assignment: bool = False, leader: str | None = None
    ) -> JoinResult:
        told: Sequence[JoinedMember] = ()
        if tells_members:
            told = [
                JoinedMember(each.member_id, each.instance_id, each.metadata(self.protocol)) for each in self.members
            ]
        return JoinResult(
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.members.leader or "" if leader is None else leader,
            members=tuple(told),
            skip_assignment=skip_assignment,
        )

    def _assignment_of(self, member: Member) -> SyncResult:
        return SyncResult(protocol_type=self.protocol_type, protocol=self.protocol, assignment=member.assignment)

    def _answer_waiting(self, member: Member, error: ErrorCode) -> None:
        self._answer_join(member, error)
        self._answer_sync(member, SyncResult(error=error))

    def _answer_join(self, member: Member, error: ErrorCode) -> None:
        ticket = self.members.take_join_ticket(member)
        if ticket is not None:
            self._refuse(ticket, error, member.member_id)

    def _answer_sync(self, member: Member, result: SyncResult) -> None:
        if member.sync_ticket is not None:
            self._reply(member.sync_ticket, result)
            member.sync_ticket = None

    def _refuse(self, ticket: Ticket, error: ErrorCode, member_id: str) -> None:
        self._reply(ticket, JoinResult(error=error, member_id=member_id))

    def _reply(self, ticket: Ticket, result: JoinResult | SyncResult) -> None:
        self._effects.append(Reply(ticket, result))

    def _store(self, assignments: Mapping[str, bytes], then: Callable[[float, ErrorCode], None]) -> None:
        # G4: a group that is dead at this broker may live on at the next coordinator.
        assert self.state is not GroupState.DEAD
        members = tuple(member.stored(self.protocol, assignments[member.member_id]) for member in self.members)
        leader = self.members.leader
        self._store_number += 1
        self._stores[self._store_number] = then
        stored = StoredGroup(self.protocol_type, self.generation, self.protocol, leader, 0, members)
        self._effects.append(Store(self._store_number, stored))

    # -- time ---------------------------------------------------------------------------------------------------

    def _touch(self, now: float, member: Member) -> None:
        """The member was heard of: its session begins anew. Only the first needs a wake: deadlines move on."""
        member.session_deadline = now + member.session_timeout_ms / 1000
        self._wake(member.session_deadline)

    def _wake(self, at: float) -> None:
        if at < self._wake_at:
            self._wake_at = at
            self._effects.append(Wake(at))

    def _wake_next(self, now: float) -> None:
        deadlines = [member.session_deadline for member in self.members if not member.keeps_alive()]
        deadlines += [*self.pending.values(), self._window.deadline, self._sync_deadline]
        # Each look goes over all of them: what is due to one of very many is found a little later.
        pause = (len(self.members) + len(self.pending)) // _MANY * _PAUSE_OF_MANY
        self._wake(max(now + pause, min(deadlines)))
