"""Whether a client does its part: sends on what it has begun, and asks for something now and then."""

# Of a request that has begun, this part has to come within the timeout.
_PART = 16
# While others wait for the memory of a request, it has to come at least so fast.
_WAITED_FOR_BYTES_PER_SECOND = 16 * 1024


class ClientProgress:
    """Looked at every now and then; in between the connection only counts.

    Args:
        now: loop.time().
        stalled_timeout: Seconds in which an incomplete request has to grow by 1/16 of its length.
        idle_timeout: Seconds without a request.
    """

    def __init__(self, now: float, stalled_timeout: float, idle_timeout: float) -> None:
        self._stalled_timeout = stalled_timeout
        self._idle_timeout = idle_timeout
        self._grown_at = self._active_at = now
        self._grown_bytes = self._active_bytes = 0
        self._frames = 0
        # When others were first seen to wait for the request that is still under way, and what had come of it.
        self._waited_for: tuple[float, int] | None = None

    def verdict(
        self,
        now: float,
        *,
        received_bytes: int,
        frames: int,
        incomplete_bytes: int,
        is_busy: bool,
        is_its_turn: bool,
        is_waited_for: bool = False,
    ) -> str | None:
        """Return why the connection has to end, or None.

        Args:
            now: loop.time().
            received_bytes: All that ever came.
            frames: Requests that ever came.
            incomplete_bytes: Length of the request under way, 0 if there is none.
            is_busy: A request is being handled or answered.
            is_its_turn: The broker reads, or cannot for lack of memory; False while the client is held back.
            is_waited_for: Others wait for the memory that the request under way has taken already.
        """
        is_new = frames != self._frames
        if is_busy or received_bytes != self._active_bytes:
            self._active_at, self._active_bytes = now, received_bytes
        grown = received_bytes - self._grown_bytes
        if not incomplete_bytes or not is_its_turn or is_new or grown >= max(incomplete_bytes // _PART, 1):
            self._grown_at, self._grown_bytes, self._frames = now, received_bytes, frames
        if now - self._grown_at >= self._stalled_timeout:
            return f"a request of {incomplete_bytes} bytes or more makes no progress"
        if now - self._active_at >= self._idle_timeout:
            return "idle"
        if not is_waited_for or not is_its_turn or is_new:
            self._waited_for = None
            return None
        return self._verdict_while_waited_for(now, received_bytes, incomplete_bytes)

    def _verdict_while_waited_for(self, now: float, received_bytes: int, incomplete_bytes: int) -> str | None:
        # A few who announce much and send next to nothing would keep everybody else waiting, again and again.
        since = self._waited_for
        self._waited_for = (now, received_bytes)
        if since is not None and received_bytes - since[1] < _WAITED_FOR_BYTES_PER_SECOND * (now - since[0]):
            return f"a request of {incomplete_bytes} bytes or more comes too slowly while others wait for its memory"
        return None
