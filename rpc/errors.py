"""What can go wrong on a link, and the codes under which a handler's error reaches the caller."""

from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    """Codes of error replies that rpc/ itself gives; other packages number theirs from FIRST_FREE_CODE."""

    INTERNAL = 1
    UNKNOWN_METHOD = 2
    MALFORMED_BODY = 3
    NOT_FOUNDED = 4
    BUSY = 5
    CANCELLED = 6
    FRAME_TOO_LARGE = 7


FIRST_FREE_CODE = 100


class RefusalCode(IntEnum):
    """Why a handshake was refused."""

    MALFORMED = 1
    UNSUPPORTED_VERSION = 2
    WRONG_CLUSTER = 3
    WRONG_NODE = 4
    WRONG_DIRECTORY = 5
    WRONG_SECRET = 6


# How the refusal of a directory that never counts again says so; the cure follows.
RETIRED = " is retired and never counts again"
# How a message begins that the other side has written.
SAID_BY_PEER = "the peer says: "


class RpcError(Exception):
    """Any failure of a link or a call. Raised by a handler, it becomes an error reply with `code`."""

    code: ClassVar[int] = ErrorCode.INTERNAL


class MalformedFrameError(RpcError):
    """The peer sent what is no frame of ours; the connection is closed."""


class FrameTooLargeError(RpcError):
    """A request or reply that no reader would take."""

    code: ClassVar[int] = ErrorCode.FRAME_TOO_LARGE


class MalformedBodyError(RpcError):
    """A request or reply body does not have the shape of its method."""

    code: ClassVar[int] = ErrorCode.MALFORMED_BODY


class LinkDownError(RpcError):
    """No working link to the node, or it was lost while the request was in flight: its outcome is unknown."""


class RpcTimeoutError(RpcError):
    """No reply within the deadline: the outcome is unknown."""


class LinkBusyError(RpcError):
    """Too much is unsent or unanswered on the link; the request was not sent."""

    code: ClassVar[int] = ErrorCode.BUSY


class NotFoundedError(RpcError):
    """One side has no cluster id yet, and the method is not one of those allowed before founding."""

    code: ClassVar[int] = ErrorCode.NOT_FOUNDED


class UnknownMethodError(RpcError):
    """Nobody registered a handler for the method."""

    code: ClassVar[int] = ErrorCode.UNKNOWN_METHOD


class RemoteError(RpcError):
    """The peer answered with an error.

    Attributes:
        remote_code: An ErrorCode, or what the handler's own RpcError subclass carries as `code`.
        message: For people; at most 1,000 characters.
    """

    def __init__(self, remote_code: int, message: str) -> None:
        super().__init__(f"the peer answered with error {remote_code}: {message}")
        self.remote_code = remote_code
        self.message = message


class HandshakeRefusedError(RpcError):
    """One of the two sides does not want the other.

    Attributes:
        refusal: Why.
        message: For people.
        by_peer: Whether the other side refused us (then it must not be told).
    """

    def __init__(self, refusal: RefusalCode, message: str, *, by_peer: bool = False) -> None:
        super().__init__(message)
        self.refusal = refusal
        self.message = message
        self.by_peer = by_peer

    @property
    def is_of_own_retired_directory(self) -> bool:
        """Whether the other side refuses this node for a data directory that never counts again."""
        return self.by_peer and self.refusal is RefusalCode.WRONG_DIRECTORY and RETIRED in self.message
