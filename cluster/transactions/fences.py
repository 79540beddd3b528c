"""Guards of batches that ask the coordinator before they get their place (RFC 0021, section 4).

The coordinator says yes, the batch waits for memory, and meanwhile the transaction is aborted: the marker finds nothing
open here, and the batch behind it would open a transaction that nobody ends. So each request for markers raises a count
of its producer, and a batch is placed only if the count is what it was before the question.

The counts are this replica's, in this process. A batch with a guard is offered in the term in which it was taken, and
in no other: fences of other leaders in between are not counted here.
"""

# Producers whose counts are known exactly, some 100 bytes each.
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
