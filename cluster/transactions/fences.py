"""Guards of batches that ask the coordinator before they get their place (RFC 0021, section 4).

The coordinator says yes, the batch waits for memory, and meanwhile the transaction is aborted: the marker finds nothing
open here, and the batch behind it would open a transaction that nobody ends. So each request for markers raises a count
of its producer, and a batch is placed only if the count is what it was before the question.

The counts are this replica's, in this process. A batch with a guard is offered in the term in which it was taken, and
in no other: fences of other leaders in between are not counted here.

The leader also remembers what it has ended, for its term: a late copy of the same request must not end the next
transaction, which may have the same epoch. The log knows that only where there was a marker to write, and only as long
as the producer is known.
"""

from typing import Generic, TypeVar

from model.control_batch import Prepare
from model.ids import Term

V = TypeVar("V")

# Seconds. A guard is kept for as long as a batch asks and waits. A late copy of a request for markers has waited in a
# sender or in the network, so its time has no bound; it is rare where the log's state has forgotten its producer, too.
_FENCES_SPAN = 60.0
_DECISIONS_SPAN = 600.0
# Producers that are known in one span; some 100 bytes for a fence, 200 for a decision.
_KNOWN_MAX = 20_000


class Fences:
    """The fence counts of one partition, exact for whoever was fenced in this span of time or the one before.

    A guard of any other producer is refused if a span has ended since, or `known_max` producers were fenced: though
    nothing may have happened to it. No guard is kept wrongly. Times are seconds of the loop's clock.
    """

    def __init__(self, known_max: int = _KNOWN_MAX) -> None:
        # Rises with each fence, of whatever producer: so a count is never used twice.
        self._newest = 0
        self._counts: _TwoSpans[int] = _TwoSpans(_FENCES_SPAN, known_max)
        # The count of all that are not known: at least the largest that was forgotten.
        self._forgotten = 0
        # The newest decision on each producer, with the leader's term.
        self._decisions: _TwoSpans[tuple[Term, Prepare]] = _TwoSpans(_DECISIONS_SPAN, known_max)

    def guard(self, producer_id: int) -> int:
        """Return the guard of a batch that is about to ask; it holds while this is what `guard` returns."""
        known = self._counts.get(producer_id)
        return self._forgotten if known is None else known

    def fence(self, producer_id: int, now: float) -> None:
        """A coordinator ends a transaction of the producer: guards that were taken before do not hold."""
        self._newest += 1
        # Counts rise, so the last that was noted is the largest.
        self._forgotten = self._counts.put(producer_id, self._newest, now) or self._forgotten

    def decide(self, producer_id: int, now: float, term: Term, prepare: Prepare) -> None:
        """What a decision asks for is done, or there was nothing to do, at the leader of `term`."""
        self._decisions.put(producer_id, (term, prepare), now)

    def was_decided(self, producer_id: int, term: Term, prepare: Prepare) -> bool:
        """Whether this decision, or a later one on the producer, was carried out in `term`."""
        known = self._decisions.get(producer_id)
        return known is not None and known[0] == term and prepare <= known[1]


class _TwoSpans(Generic[V]):
    """What was noted in this span of time and in the one before; what is older is forgotten with the next note."""

    def __init__(self, seconds: float, known_max: int) -> None:
        self._seconds = seconds
        self._known_max = known_max
        self._began = 0.0
        self._present: dict[int, V] = {}
        self._former: dict[int, V] = {}

    def __len__(self) -> int:
        return len(self._present) + len(self._former)

    def get(self, key: int) -> V | None:
        """Return what was noted last; None: nothing, or it is forgotten."""
        found = self._present.get(key)
        return self._former.get(key) if found is None else found

    def put(self, key: int, value: V, now: float) -> V | None:
        """Note a value; return the last one of a span that is forgotten by that."""
        dropped = None
        if now >= self._began + self._seconds or len(self._present) >= self._known_max:
            dropped = next(reversed(self._former.values()), None)
            self._former, self._present, self._began = self._present, {}, now
        self._present.pop(key, None)
        self._present[key] = value
        return dropped
