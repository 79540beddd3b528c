"""Which committed offsets have outlived their retention (KIP-211). Pure; milliseconds of the wall clock."""

from collections.abc import Collection, Mapping

from cluster.groups.records import CommittedOffset, StoredGroup
from kafka_api.groups.subscription import consumed_topics

Place = tuple[str, int]


def expired_offsets(
    now_ms: int, retention_ms: int, group: StoredGroup | None, offsets: Mapping[Place, CommittedOffset]
) -> list[Place]:
    """Return what is to be deleted of one group's offsets.

    Without members an offset's time begins when the last member went, or when it was committed after that; with
    members only what none of them subscribes to grows old, where their metadata says so.
    """
    oldest = now_ms - retention_ms
    since = 0
    kept: Collection[str] = ()
    if group is not None and not group.members:
        since = group.state_timestamp
    elif group is not None:
        subscribed = consumed_topics(group.protocol_type, [member.subscription for member in group.members])
        if subscribed is None:
            return []
        kept = subscribed
    return [
        place
        for place, offset in offsets.items()
        if place[0] not in kept and max(since, offset.commit_timestamp) <= oldest
    ]
