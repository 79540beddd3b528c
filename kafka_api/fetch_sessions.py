"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what has changed; so does the answer.

    full request, epoch 0  ->  session, epoch 1
    request, epoch n       ->  epoch n + 1; anything else than n is refused

All sessions of a listener are in one cache of bounded slots and bounded memory. Where it is full, a newcomer takes the
place of the session that was used longest ago, if that is idle, else of the smallest one that has had its time, if the
newcomer is larger. Who gets no session is answered in full, as before KIP-227.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from kafka_api.protocol.messages import FetchRequest
from runtime.rng import Rng

NO_SESSION = 0
FIRST_EPOCH = 1

_INT32_MAX = 2**31 - 1
# What one partition of a session takes, but for its names: measured by a test.
_PARTITION_BYTES = 768

# Topic name or id, and number.
PartitionKey = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSessionOptions:
    """Bounds of the sessions of one listener.

    Attributes:
        sessions_max: Sessions at a time (max.incremental.fetch.session.cache.slots); 0: none.
        partitions_max: Partitions of one session: what a request of a few bytes makes the broker look at.
        bytes_max: Memory of all of them; some 70,000 partitions.
        idle_timeout: Seconds. A session that was not used for so long may be evicted by any other; one that was made
            so long ago by a larger one.
    """

    sessions_max: int = 1000
    partitions_max: int = 10_000
    bytes_max: int = 64 * 1024 * 1024
    idle_timeout: float = 120.0


class AskedPartition:
    """A partition that a client fetches, and in a session what it was last told of its positions (-1: nothing)."""

    __slots__ = ("cost", "fields", "told_high_watermark", "told_start_offset", "topic", "topic_id")

    def __init__(self, topic: str, topic_id: str, fields: FetchRequest.FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.fields = fields
        self.told_high_watermark = -1
        self.told_start_offset = -1
        # Bytes it takes in a session, at most; names that it shares are counted as if they were its own. Counted once:
        # the size of a text grows when its UTF-8 is cached, and what was added to a sum is taken from it later.
        self.cost = _PARTITION_BYTES + sys.getsizeof(topic) + sys.getsizeof(topic_id)


class FetchSession:
    """The partitions of one consumer, those first that have waited longest for records.

    Attributes:
        by_id: Whether topics are named by id; a session does not change it.
        epoch: That of the next request.
        cost: Bytes counted for it.
    """

    def __init__(self, session_id: int, now: float, *, by_id: bool) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = FIRST_EPOCH
        self.cost = 0
        self.created_at = self.used_at = now
        self._partitions: dict[PartitionKey, AskedPartition] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    def partitions(self) -> list[AskedPartition]:
        """Return the partitions in their order."""
        return list(self._partitions.values())

    def update(self, added: Iterable[AskedPartition], forgotten: Iterable[PartitionKey]) -> None:
        """Take in what a request says: partitions that are new or read from elsewhere, then those to forget."""
        for asked in added:
            known = self._partitions.get(self.key_of(asked))
            if known is not None:
                known.fields = asked.fields
            else:
                self._partitions[self.key_of(asked)] = asked
                self.cost += asked.cost
        for key in forgotten:
            gone = self._partitions.pop(key, None)
            if gone is not None:
                self.cost -= gone.cost

    def move_to_end(self, asked: AskedPartition) -> None:
        """The partition has had its turn: others come first from now on."""
        key = self.key_of(asked)
        if self._partitions.pop(key, None) is not None:
            self._partitions[key] = asked

    def advance(self) -> int:
        """A request was accepted: return the epoch of the next one."""
        self.epoch = FIRST_EPOCH if self.epoch == _INT32_MAX else self.epoch + 1
        return self.epoch

    def key_of(self, asked: AskedPartition) -> PartitionKey:
        """Return what tells a partition from the others of the session."""
        return (asked.topic_id if self.by_id else asked.topic), asked.fields.partition


class FetchSessions:
    """All sessions of a listener. Times are the loop's."""

    def __init__(self, options: FetchSessionOptions, rng: Rng) -> None:
        self._options = options
        self._rng = rng
        # In order of their last use.
        self._sessions: dict[int, FetchSession] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def counted_bytes(self) -> int:
        """Memory counted for all sessions."""
        return self._bytes

    def get(self, session_id: int) -> FetchSession | None:
        """Return a session."""
        return self._sessions.get(session_id)

    def create(self, partitions: Iterable[AskedPartition], now: float, *, by_id: bool) -> FetchSession | None:
        """Return a new session of these partitions; None if there is no room, or nothing to remember."""
        session = FetchSession(self._new_id(), now, by_id=by_id)
        session.update(partitions, ())
        if not session or not self._make_room(session, slots=1, more=session.cost, now=now):
            return None
        self._sessions[session.session_id] = session
        self._bytes += session.cost
        self._check_bounds()
        return session

    def update(
        self,
        session: FetchSession,
        added: Iterable[AskedPartition],
        forgotten: Iterable[PartitionKey],
        now: float,
    ) -> bool:
        """Use a session and take in what a request says; False: it has grown beyond what is free, and is gone."""
        before = session.cost
        session.update(added, forgotten)
        session.used_at = now
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        more = session.cost - before
        if more > 0 and not self._make_room(session, slots=0, more=more, now=now):
            session.cost = before
            self.remove(session)
            return False
        self._bytes += more
        self._check_bounds()
        return True

    def remove(self, session: FetchSession) -> None:
        """End a session, if it has not ended yet."""
        if self._sessions.pop(session.session_id, None) is not None:
            self._bytes -= session.cost
            self._check_bounds()

    def _check_bounds(self) -> None:
        """Assert the bounds of RFC 0005, section 3; bytes of sessions that are gone would evict all others one day."""
        assert len(self._sessions) <= self._options.sessions_max
        assert 0 <= self._bytes <= self._options.bytes_max
        assert self._sessions or not self._bytes

    def _new_id(self) -> int:
        while True:
            session_id = self._rng.randrange(1, _INT32_MAX + 1)
            if session_id not in self._sessions:
                return session_id

    def _make_room(self, newcomer: FetchSession, *, slots: int, more: int, now: float) -> bool:
        options = self._options
        if len(newcomer) > options.partitions_max or newcomer.cost > options.bytes_max or slots > options.sessions_max:
            return False
        while len(self) + slots > options.sessions_max or self._bytes + more > options.bytes_max:
            victim = self._victim(newcomer, now)
            if victim is None:
                return False
            self.remove(victim)
        return True

    def _victim(self, newcomer: FetchSession, now: float) -> FetchSession | None:
        others = [session for session in self._sessions.values() if session is not newcomer]
        latest = now - self._options.idle_timeout
        if others and others[0].used_at <= latest:
            return others[0]
        settled = [session for session in others if session.created_at <= latest and len(session) < len(newcomer)]
        return min(settled, key=len, default=None)
