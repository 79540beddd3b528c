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

# Producers whose counts are known exactly, some 200 bytes each.
_FENCES_MAX = 20_000


class Fences:
    """The fence counts of one partition. Beyond `fences_max` producers the one fenced longest ago is only estimated:
    a guard of such a producer may be refused though nothing has happened to it, and is never kept wrongly.
    """

    def __init__(self, fences_max: int = _FENCES_MAX) -> None:
        self._fences_max = fences_max
        # Rises with each fence, of whatever producer: so a count is never used twice.
        self._newest = 0
        self._counts: dict[int, int] = {}
        # The count of all that are not known: the largest that was forgotten.
        self._forgotten = 0
        # Decisions that found nothing open, with the leader's term.
        self._without: dict[int, tuple[Term, Prepare]] = {}

    def guard(self, producer_id: int) -> int:
        """Return the guard of a batch that is about to ask; it holds while this is what `guard` returns."""
        return self._counts.get(producer_id, self._forgotten)

    def fence(self, producer_id: int) -> None:
        """A coordinator ends a transaction of the producer: guards that were taken before do not hold."""
        self._newest += 1
        self._counts.pop(producer_id, None)
        self._counts[producer_id] = self._newest
        if len(self._counts) > self._fences_max:
            oldest = next(iter(self._counts))
            self._forgotten = self._counts.pop(oldest)
            self._without.pop(oldest, None)

    def fence_nothing_open(self, producer_id: int, term: Term, prepare: Prepare) -> None:
        """As `fence`; the decision has found nothing open at the leader of `term`."""
        self.fence(producer_id)
        self._without[producer_id] = (term, prepare)

    def found_nothing_open(self, producer_id: int, term: Term, prepare: Prepare) -> bool:
        """Whether this decision, or a later one, has found nothing open in `term`."""
        known = self._without.get(producer_id)
        return known is not None and known[0] == term and prepare <= known[1]
