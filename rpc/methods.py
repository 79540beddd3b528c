"""The methods that nodes call on each other; each package names its own."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from rpc.identity import Peer

Request = TypeVar("Request")
Reply = TypeVar("Reply")

# Called by the reader, in arrival order; must not block. It returns the reply, or a future of it.
Handler = Callable[[Peer, Request, memoryview], Reply | asyncio.Future[Reply]]

# Runs as a task of its own; two of them may overtake each other.
AsyncHandler = Callable[[Peer, Request, memoryview], Awaitable[Reply]]


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Reply]):
    """One kind of request.

    Attributes:
        number: On the wire; unique among all methods of the broker, 0 or more, and never reused.
        name: For people.
        request: Struct of the request's body (`array_like=True`, so that fields may be added at the end).
        reply: Struct of the reply's body.
        urgent: Never refused for unsent bytes on the link, and sent before all requests that are not urgent, between
            two chunks of one too (heartbeats, votes). Its requests should be small: they are sent whole.
        takes_payload: Its requests carry bytes behind their body. Frames protect lengths and header; whatever is in a
            payload has a checksum of its own that the handler compares (RFC 0001 section 3). Without it a payload is
            refused.
        before_founding: May be called on a link where one side has no cluster id yet.
    """

    number: int
    name: str
    request: type[Request]
    reply: type[Reply]
    urgent: bool = False
    takes_payload: bool = False
    before_founding: bool = False
