"""Rules about transactions that nobody ends."""

from collections.abc import Iterator

from raftka.counted import counted
from raftka.health.findings import Finding, Level
from raftka.health.picture import Picture, TransactionPicture

_SHOWN_MAX = 3
# Where committed offsets are; `cluster.groups.offsets_topic` has the name, which this package cannot import.
_OFFSETS_TOPIC = "__consumer_offsets"
_CAUSE = (
    "its coordinator does not know it (__transaction_state was lost), does not reach the partition's leader, or is away"
)


def check_hanging(picture: Picture) -> Iterator[Finding]:
    """Name transactions that are open for longer than any producer may ask for."""
    # A leader that was deposed and does not know it may name what its successor names.
    hanging = {
        (each.topic, each.number, each.first_offset): each
        for broker in picture.brokers
        for each in broker.transactions
        if each.hangs
    }
    for number, key in enumerate(sorted(hanging)):
        if number == _SHOWN_MAX:
            more = counted(len(hanging) - _SHOWN_MAX, "more transaction")
            words = f"as open as these: {more}"
            cure = "list them: raftka txn find-hanging --max-transaction-timeout 0"
            yield Finding(Level.PROBLEM, "transactions", words, cure, _CAUSE)
            return
        yield _hanging(hanging[key])


def _hanging(each: TransactionPicture) -> Finding:
    waits = (
        "members that ask for stable offsets wait"
        if each.topic == _OFFSETS_TOPIC
        else f"readers at read_committed wait at offset {each.first_offset}"
    )
    return Finding(
        Level.PROBLEM,
        "transactions",
        f"{each.topic}-{each.number}: the transaction of producer {each.producer_id}, epoch {each.epoch}, has been open"
        f" for {_duration(each.open_seconds)}; {waits}",
        f"end it, which is refused if its coordinator has it: raftka txn abort {each.topic}/{each.number}"
        f" --start-offset {each.first_offset}",
        f"{_CAUSE}: it ends each transaction after {_duration(each.max_seconds)} (transaction.max.timeout.ms)",
    )


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
