"""Who wrote a record twice: what the batches of both copies say of their idempotent producer.

Brokers know a retry by its producer id, epoch and sequence number. If both copies have the same, the brokers took a
retry for a new batch. If not, the client sent the record anew, and no broker can tell: then the broker's answer that
led to the new epoch is what to look at. The verdict is the same in both cases.
"""

from collections.abc import Iterator, Mapping

from raftka.check.verdict import Anomaly, Verdict
from raftka.kafka.wire.record_batches import Producer

NAME = "duplicate"


def tell_duplicates(verdict: Verdict, producers: Mapping[tuple[str, int], Producer]) -> list[str]:
    """Return a line for each example of a duplicate.

    Args:
        verdict: Of the run's history.
        producers: Who wrote each record of the final reads, by (partition, offset); only idempotent producers.
    """
    examples = [each for finding in verdict.findings if finding.name == NAME for each in finding.examples]
    return [_told(each, producers) for each in examples]


def _told(anomaly: Anomaly, producers: Mapping[tuple[str, int], Producer]) -> str:
    copies = {offset: producers.get((anomaly.subject, offset)) for offset in sorted(set(_offsets(anomaly)))}
    places = ", ".join(f"offset {offset} by {_named(producer)}" for offset, producer in copies.items())
    if None in copies.values() or len(copies) < 2:
        why = "not both are known"
    elif len(set(copies.values())) < len(copies):
        why = "the same number twice: a broker took a retry for a new batch"
    else:
        why = "the client sent it anew under another number: look for the answer that led to it"
    return f"{anomaly.subject}: {places}: {why}"


def _offsets(anomaly: Anomaly) -> Iterator[int]:
    for line in anomaly.operations:
        if line["f"] == "poll":
            yield from (offset for offset, _ in line["recs"])
        elif line.get("off") is not None:
            yield line["off"]


def _named(producer: Producer | None) -> str:
    if producer is None:
        return "nobody known"
    return f"producer {producer.id}, epoch {producer.epoch}, sequence {producer.sequence}"
