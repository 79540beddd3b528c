"""How long a group waits for its members to join the next generation."""

import math

NEVER = math.inf
# A member that has never been in a generation may wait so long for its first answer; nobody hears of it meanwhile.
NEW_MEMBER_SECONDS = 300.0
# Where only static members are left and none has joined, the group waits so long at least before it looks again: they
# may have given themselves no time at all, and sessions of half an hour.
STATIC_WINDOW_SECONDS_MIN = 1.0


class JoinWindow:
    """Open while members may join.

    The first generation of a group waits, in steps of `initial_delay`, as long as new members keep coming, so that
    consumers that are started together do not rebalance one after the other (KIP-134); never longer than the members'
    own rebalance timeout.

    Attributes:
        initial_delay: A step, seconds; a later window follows a change.
        deadline: When it ends if not everybody has joined before.
        waits_for_more: It stays open even if everybody has.
    """

    def __init__(self, initial_delay: float) -> None:
        self.initial_delay = initial_delay
        self._left = 0.0
        self._has_new_member = False
        self.deadline = NEVER
        self.waits_for_more = False

    def open(self, now: float, seconds: float, *, is_first: bool) -> None:
        """Let members join for so many seconds."""
        self.waits_for_more = is_first and self.initial_delay > 0
        self._has_new_member = False
        if self.waits_for_more:
            delay = min(self.initial_delay, seconds)
            self._left = seconds - delay
            self.deadline = now + delay
        else:
            self.deadline = now + seconds

    def note_new_member(self) -> None:
        """Somebody who was no member has come."""
        self._has_new_member = True

    def extend(self, now: float) -> bool:
        """At the deadline: wait on, where more members have come and may come; return whether it does."""
        if not (self.waits_for_more and self._has_new_member and self._left > 0):
            return False
        delay = min(self.initial_delay, self._left)
        self._left -= delay
        self._has_new_member = False
        self.deadline = now + delay
        return True

    def close(self) -> None:
        """The next generation has begun."""
        self.deadline = NEVER
        self.waits_for_more = False
