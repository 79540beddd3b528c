"""Guards of batches that ask the coordinator before they get their place (RFC 0021, section 4).

The coordinator says yes, the batch waits for memory, and meanwhile the transaction is aborted: the marker finds nothing
open here, and the batch behind it would open a transaction that nobody ends. So each request for markers raises a count
of its producer, and a batch is placed only if the count is what it was before the question.

The counts are this replica's, in this process. A batch with a guard is offered in the term in which it was taken, and
in no other: fences of other leaders in between are not counted here.

A marker that found nothing open leaves nothing in the log. So the leader remembers its decision, for its term: a late
copy of the same request must not end the next transaction, which may have the same epoch.
"""

from model.control_batch import Prepare
from model.ids import Term

# Seconds. A guard is kept for as long as a batch asks and waits. Who was fenced before the last two spans is forgotten.
_SPAN_SECONDS = 60.0
# Producers that are known at once in one span, and decisions that are remembered; some 100 bytes each.
_KNOWN_MAX = 20_000


class Fences:
    """The fence counts of one partition, exact for whoever was fenced in this span of time or the one before.

    A guard of any other producer is refused if a span has ended since, or `known_max` producers were fenced: though
    nothing may have happened to it. No guard is kept wrongly.
    """

    def __init__(self, known_max: int = _KNOWN_MAX) -> None:
        self._known_max = known_max
        # Rises with each fence, of whatever producer: so a count is never used twice.
        self._newest = 0
        self._counts: dict[int, int] = {}
        self._former_counts: dict[int, int] = {}
        self._span_began = 0.0
        # The count of all that are not known: at least the largest that was forgotten.
        self._forgotten = 0
        # Decisions that found nothing open, with the leader's term.
        self._without: dict[int, tuple[Term, Prepare]] = {}

    def guard(self, producer_id: int) -> int:
        """Return the guard of a batch that is about to ask; it holds while this is what `guard` returns."""
        known = self._counts.get(producer_id)
        return self._former_counts.get(producer_id, self._forgotten) if known is None else known

    def fence(self, producer_id: int, now: float) -> None:
        """A coordinator ends a transaction of the producer: guards that were taken before do not hold.

        Args:
            producer_id: Of the producer.
            now: Seconds of the loop's clock.
        """
        if now >= self._span_began + _SPAN_SECONDS or len(self._counts) >= self._known_max:
            # Counts rise, so the last is the largest.
            self._forgotten = next(reversed(self._former_counts.values()), self._forgotten)
            self._former_counts, self._counts, self._span_began = self._counts, {}, now
        self._newest += 1
        self._counts.pop(producer_id, None)
        self._counts[producer_id] = self._newest

    def fence_nothing_open(self, producer_id: int, now: float, term: Term, prepare: Prepare) -> None:
        """As `fence`; the decision has found nothing open at the leader of `term`. It is not forgotten by time."""
        self.fence(producer_id, now)
        self._without.pop(producer_id, None)
        self._without[producer_id] = (term, prepare)
        if len(self._without) > self._known_max:
            del self._without[next(iter(self._without))]

    def found_nothing_open(self, producer_id: int, term: Term, prepare: Prepare) -> bool:
        """Whether this decision, or a later one, has found nothing open in `term`."""
        known = self._without.get(producer_id)
        return known is not None and known[0] == term and prepare <= known[1]
