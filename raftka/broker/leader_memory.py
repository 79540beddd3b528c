"""When the partitions of this broker last had a leader: a hand-over or an election does not make a broker unready.

Until the broker was ready once, each partition must have a leader at that moment: whoever restarts brokers one after
the other waits for that. Later a partition may be without one for LEADERLESS_SECONDS, which a hand-over or an election
takes. A partition that is created or moved here later has as long to elect its first one.
"""

from model.ids import GroupId

# A dead process is replaced within some hundred milliseconds, a dead machine within some seconds.
LEADERLESS_SECONDS = 5.0


class LeaderMemory:
    """Remembers it for as long as somebody looks: `StallWatch` does so once a second."""

    def __init__(self) -> None:
        self._led_at: dict[GroupId, float] = {}
        self._was_ready = False

    def note_ready(self) -> None:
        """The broker is ready: from now on partitions may be without a leader for a while."""
        self._was_ready = True

    def is_missed(self, group: GroupId, now: float, *, has_leader: bool) -> bool:
        """Look at a partition; return whether it has been without a leader for too long.

        Args:
            group: Of the partition, which has a replica here.
            now: Loop time in seconds; it never goes back.
            has_leader: Whether a leader is known at `now`.
        """
        if has_leader:
            self._led_at[group] = now
            return False
        if not self._was_ready:
            return True
        return now - self._led_at.setdefault(group, now) >= LEADERLESS_SECONDS

    def keep(self, groups: set[GroupId]) -> None:
        """Forget all others: their replicas are not here any more."""
        for group in self._led_at.keys() - groups:
            del self._led_at[group]
