"""The members of one group: by id and by instance id, their leader, and the protocol that all of them have."""

from collections import Counter
from collections.abc import Collection, Iterator

from kafka_api.groups.group_events import Ticket
from kafka_api.groups.member import Member
from kafka_api.groups.member_memory import text_bytes
from kafka_api.protocol.error_codes import ErrorCode


class Members:
    """In the order in which they joined; the first becomes the leader, and the next one when it goes.

    Tickets of joins are given and taken here.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self._supported: Counter[str] = Counter()
        self.leader: str | None = None
        # How many wait for the next generation: counted, for a group may have very many members.
        self.joined = 0
        # Memory that they take, about.
        self.size_bytes = 0

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, member_id: str) -> Member | None:
        """Return a member by its id."""
        return self._by_id.get(member_id)

    def static(self, instance_id: str | None) -> Member | None:
        """Return the member with an instance id."""
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def find(self, member_id: str, instance_id: str | None) -> Member | ErrorCode:
        """Return the member that somebody claims to be.

        An instance id decides: who has it under another member id has taken the place of the one that asks.
        """
        if instance_id is not None:
            member = self.static(instance_id)
            if member is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            return member if member.member_id == member_id else ErrorCode.FENCED_INSTANCE_ID
        return self._by_id.get(member_id) or ErrorCode.UNKNOWN_MEMBER_ID

    def add(self, member: Member) -> None:
        """Take a member with an id, and an instance id if it has one, that nobody has."""
        assert member.member_id not in self._by_id
        self._by_id[member.member_id] = member
        self.after_change(member)
        if member.instance_id is not None:
            assert member.instance_id not in self._static
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        """Let a member go."""
        self.take_join_ticket(member)
        del self._by_id[member.member_id]
        self.before_change(member)
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self._by_id), None)
        self._check_counts()

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member the id of its new life; it keeps its place, also that of the leader."""
        assert member.instance_id is not None
        if self.leader == member.member_id:
            self.leader = member_id
        self.size_bytes += text_bytes(member_id) - text_bytes(member.member_id)
        self._by_id = {(member_id if each is member else key): each for key, each in self._by_id.items()}
        member.member_id = member_id
        self._static[member.instance_id] = member_id

    def await_join(self, member: Member, ticket: Ticket) -> None:
        """A member waits for the next generation from now on."""
        self.joined += member.join_ticket is None
        # More would complete a generation without members that are still on their way to it.
        assert self.joined <= len(self._by_id)
        member.join_ticket = ticket

    def take_join_ticket(self, member: Member) -> Ticket | None:
        """A member waits no longer; return what it waited with, if it did."""
        ticket, member.join_ticket = member.join_ticket, None
        self.joined -= ticket is not None
        assert self.joined >= 0
        return ticket

    def before_change(self, member: Member) -> None:
        """Its protocols are about to be replaced; `after_change` follows."""
        self._supported.subtract(member.names)
        self.size_bytes -= member.size_bytes

    def after_change(self, member: Member) -> None:
        """Its protocols were replaced."""
        self._supported.update(member.names)
        self.size_bytes += member.size_bytes

    def _check_counts(self) -> None:
        """Assert that what is counted member by member ends with the last of them; and that a member leads."""
        assert (self.leader is None) == (not self._by_id)
        assert self._by_id or not self.joined
        assert self._by_id or not self.size_bytes

    def assign(self, member: Member, assignment: bytes) -> None:
        """Give a member its part."""
        self.size_bytes += len(assignment) - len(member.assignment)
        member.assignment = assignment

    def supports_any(self, names: Collection[str]) -> bool:
        """Whether one of these protocols is one of all members'."""
        return any(self._supported[name] == len(self) for name in names)

    def select_protocol(self) -> str:
        """Return the protocol of all members that most of them like best; of several the leader's first."""
        assert self.leader is not None
        candidates = frozenset(name for name, count in self._supported.items() if count == len(self))
        votes = Counter(member.vote(candidates) for member in self._by_id.values())
        most = max(votes.values())
        leader = self._by_id[self.leader]
        return next(name for name, _ in leader.protocols if votes[name] == most)

    def rebalance_timeout_ms(self) -> int:
        """Return the longest that any member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self._by_id.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Let somebody lead who has joined the next generation; return whether anybody has."""
        if self.leader is not None and self._by_id[self.leader].is_awaiting_join:
            return True
        joined = next((member for member in self._by_id.values() if member.is_awaiting_join), None)
        if joined is not None:
            self.leader = joined.member_id
        return joined is not None
