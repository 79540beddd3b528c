"""What the broker tells a service manager: ready, what it waits for, alive, stopping.

The protocol is systemd's, sd_notify(3): datagrams of NAME=VALUE lines to the Unix socket in NOTIFY_SOCKET. Without that
variable nothing is sent.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, MutableMapping

from model.error_text import reason_of

# Until the broker serves, its status may change at any moment; afterwards it is for a person who looks.
_STARTING_SECONDS = 0.2
_SERVING_SECONDS = 5.0
# Some fraction of a second is left to the loop for its work, whatever the manager wants.
_LOOK_SECONDS_MIN = 0.01
# systemd takes datagrams of at most 4,096 bytes.
_STATUS_CHARACTERS_MAX = 900
_logger = logging.getLogger("broker")


class ServiceManager:
    """The manager that started this process, if one did.

    Everything is sent from the event loop, so that a loop that hangs sends no WATCHDOG=1, and the manager restarts the
    broker. Nothing waits: if the manager's socket is full, a message is dropped, and the next look repeats it.

    Attributes:
        watchdog_seconds: How long the manager waits for a sign of life; None: it does not.
    """

    def __init__(self, environment: MutableMapping[str, str], pid: int | None = None) -> None:
        """Read the manager's variables, and remove them: a child of this process is not the service.

        Args:
            environment: Has NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, or lacks them.
            pid: Of this process; None: os.getpid().
        """
        address = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "")
        watched_pid = environment.pop("WATCHDOG_PID", "")
        self._socket = _connected(address) if address else None
        # WATCHDOG_PID is set if the variables may have reached a child of the process that is watched.
        is_watched = watched_pid in ("", str(os.getpid() if pid is None else pid))
        self.watchdog_seconds = _seconds(microseconds) if self._socket is not None and is_watched else None
        self._timer: asyncio.TimerHandle | None = None
        self._is_ready = self._is_stopping = self._has_complained = False
        self._sent_status = ""

    def start(self, is_serving: Callable[[], bool], status: Callable[[], str]) -> None:
        """Begin to look, on the running loop.

        Args:
            is_serving: Whether clients are served; READY=1 is sent once, when this is first true.
            status: A line for the operator: what the broker waits for, or that it serves.
        """
        if self._socket is not None:
            self._look(asyncio.get_running_loop(), is_serving, status)

    def tell_stopping(self, status: str) -> None:
        """Send STOPPING=1 with a last status. Signs of life go on until `close`: a stop may hang, too."""
        if not self._is_stopping:
            self._is_stopping = True
            self._send(["STOPPING=1", f"STATUS={_one_line(status)}"])

    def close(self) -> None:
        """Send nothing more. Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _look(self, loop: asyncio.AbstractEventLoop, is_serving: Callable[[], bool], status: Callable[[], str]) -> None:
        lines = [] if self.watchdog_seconds is None else ["WATCHDOG=1"]
        told = self._sent_status
        is_ready = self._is_ready
        # While parts of the broker are being stopped, nobody asks them.
        if not self._is_stopping:
            is_ready = is_ready or is_serving()
            told = _one_line(status())
            if is_ready and not self._is_ready:
                lines.append("READY=1")
            if told != self._sent_status:
                lines.append(f"STATUS={told}")
        # What was not sent is sent again at the next look.
        if lines and self._send(lines):
            self._is_ready, self._sent_status = is_ready, told
        pause = _SERVING_SECONDS if self._is_ready else _STARTING_SECONDS
        if self.watchdog_seconds is not None:
            # Half of it, as sd_watchdog_enabled(3) recommends.
            pause = min(pause, max(self.watchdog_seconds / 2, _LOOK_SECONDS_MIN))
        self._timer = loop.call_later(pause, self._look, loop, is_serving, status)

    def _send(self, lines: list[str]) -> bool:
        """Send one datagram; return whether the manager has it."""
        if self._socket is None:
            return False
        try:
            self._socket.send("\n".join(lines).encode(errors="replace"))
        except BlockingIOError:
            return False
        except OSError as error:
            if not self._has_complained:
                self._has_complained = True
                _logger.warning("the service manager at NOTIFY_SOCKET does not listen: %s", reason_of(error))
            return False
        return True


def _connected(address: str) -> socket.socket | None:
    """Return a socket to the manager, or None, with a line of the log, if there is none at this address.

    Args:
        address: A path, or @NAME for a name in the abstract namespace of Linux.
    """
    if not address.startswith(("/", "@")) or len(address) == 1:
        _logger.warning("NOTIFY_SOCKET=%s: neither a path nor @NAME; the service manager gets no messages", address)
        return None
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        found.connect("\0" + address[1:] if address.startswith("@") else address)
    except OSError as error:
        _logger.warning("NOTIFY_SOCKET=%s: %s; the service manager gets no messages", address, reason_of(error))
        found.close()
        return None
    return found


def _seconds(microseconds: str) -> float | None:
    if not microseconds:
        return None
    if not (microseconds.isascii() and microseconds.isdigit()) or int(microseconds) == 0:
        _logger.warning("WATCHDOG_USEC=%s: not a number of microseconds above 0; no WATCHDOG=1 is sent", microseconds)
        return None
    return int(microseconds) / 1_000_000


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_STATUS_CHARACTERS_MAX]
