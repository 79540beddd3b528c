"""A double of systemd's notify socket: keeps what services say by sd_notify(3), with the process that said it."""

import os
import socket
import struct
import time
from pathlib import Path
from typing import NamedTuple

_CREDENTIALS = struct.Struct("3i")
_BYTES_MAX = 4096


class Message(NamedTuple):
    """One datagram: its lines, and the process that sent it."""

    pid: int
    lines: list[str]

    @property
    def status(self) -> str | None:
        return next((line.removeprefix("STATUS=") for line in self.lines if line.startswith("STATUS=")), None)


class NotifyDouble:
    """Listens at once; `address` is what belongs into NOTIFY_SOCKET."""

    def __init__(self, folder: Path | None = None) -> None:
        """Listen at a path in this folder; None: at a name of the abstract namespace."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        if folder is None:
            # The kernel chooses a free one.
            self._socket.bind("")
            self.address = "@" + self._socket.getsockname()[1:].decode()
        else:
            self.address = str(folder / "notify")
            self._socket.bind(self.address)
        self.messages: list[Message] = []

    def close(self) -> None:
        self._socket.close()

    def take(self, seconds: float = 0.0) -> Message | None:
        """Return the next message, or None if there is none within this time."""
        # Not 0: the socket would be a non-blocking one, which raises another error.
        self._socket.settimeout(max(seconds, 0.001))
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_BYTES_MAX, socket.CMSG_SPACE(_CREDENTIALS.size))
        except TimeoutError:
            return None
        pid, _, _ = _CREDENTIALS.unpack(ancillary[0][2])
        self.messages.append(Message(pid, data.decode().splitlines()))
        return self.messages[-1]

    def take_all(self) -> list[Message]:
        """Return all messages that are there."""
        found = []
        while (message := self.take()) is not None:
            found.append(message)
        return found

    def wait_for(self, text: str, seconds: float = 90.0) -> Message:
        """Return the next message with a line that has this text."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            message = self.take(left)
            if message is not None and any(text in line for line in message.lines):
                return message
        raise AssertionError(f"no message with {text!r} within {seconds:g} s, but {self.messages}")

    def environment(self, watchdog_usec: int | None = None) -> dict[str, str]:
        """Return this process's environment with systemd's variables, without options of a broker."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAFTKA_")}
        watchdog = {} if watchdog_usec is None else {"WATCHDOG_USEC": str(watchdog_usec)}
        return kept | watchdog | {"NOTIFY_SOCKET": self.address}
