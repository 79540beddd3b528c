"""Rules about log compaction: passes that fail, and brokers for which deletes are kept."""

from collections.abc import Iterator

from raftka.counted import counted
from raftka.health.findings import Finding, Level, listed
from raftka.health.picture import Picture

# Passes come with seconds to minutes between them: a broker may be behind others for so long.
HELD_SECONDS_MAX = 600.0


def check_suspended(picture: Picture) -> Iterator[Finding]:
    """Name replicas over which no pass is made any more."""
    for broker in picture.brokers:
        if broker.uncompacted:
            yield Finding(
                Level.WARNING,
                f"broker {broker.node_id}",
                f"its logs of {listed(sorted(broker.uncompacted))} are not compacted any more, and grow",
                f"see why in its log (`compaction has failed`), mend that, and restart broker {broker.node_id}",
                "three passes in a row have failed: a disk that refuses, no memory for the process, or damage",
            )


def check_held(picture: Picture) -> Iterator[Finding]:
    """Name brokers for which leaders keep tombstones: these go once every member has compacted what they delete."""
    held: dict[int, tuple[int, float]] = {}
    for broker in picture.brokers:
        for node_id, partitions, seconds in broker.held_deletes:
            before = held.get(node_id, (0, 0.0))
            held[node_id] = (before[0] + partitions, max(before[1], seconds))
    for node_id, (partitions, seconds) in sorted(held.items()):
        if seconds < HELD_SECONDS_MAX:
            continue
        is_lost = node_id in picture.lost
        yield Finding(
            Level.WARNING,
            f"broker {node_id}",
            f"tombstones of {counted(partitions, 'compacted partition')} stay because of it, for {seconds / 60:.0f} min"
            " until now",
            f"start it; if its disk is lost: raftka broker replace {node_id}"
            if is_lost
            else "wait, if it has just started; else see its log for passes of compaction that fail",
            "it does not answer" if is_lost else "it has not compacted what they delete",
        )
