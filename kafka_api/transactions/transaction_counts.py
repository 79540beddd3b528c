"""What a broker's transaction coordinator has done since its start, for metrics."""

from dataclasses import dataclass

from cluster.transactions.records import TransactionState


@dataclass(slots=True)
class TransactionCounts:
    """Counters; each is at least 0 and only rises.

    Attributes:
        committed: Transactions whose commit is decided: their Prepare is committed here.
        aborted: The same of aborts, whoever asked for them. Empty ones, which EndTxn 5 aborts, are among them.
        timed_out: Aborts that were begun because a transaction was open for longer than its producer had asked for.
        fenced: Requests that were refused because a newer producer has taken the place of the one that asks.
        markers_sent: Markers that a leader was asked for the first time in this term of the coordinator.
        markers_resent: Those that a leader was asked for again: it was away, or did not answer in time.
    """

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    fenced: int = 0
    markers_sent: int = 0
    markers_resent: int = 0

    def count_decision(self, state: TransactionState) -> None:
        """Count a record that was committed in this term, if it is a decision."""
        self.committed += state is TransactionState.PREPARE_COMMIT
        self.aborted += state is TransactionState.PREPARE_ABORT
