"""Requests that any broker takes and only a leader can answer: raft0's leader, or the leader of a partition.

One rule holds for all of them:

1. The broker that was asked finds the leader. If it leads itself, it runs the request. Otherwise it sends the request
   over the node link, with a timeout. The receiver runs it and never forwards it again.
2. The leader's reply ends the request, and a refusal is a reply: each protocol has a field for it.
3. A request without a reply may have taken effect, now or later. It ends with `NoReplyError`, and is sent again only if
   a repetition does no harm.
4. `forward` asks a given leader once. `forward_until` looks for a leader again and again until a deadline, as long as
   the request cannot have taken effect: nobody is known to lead, or the receiver answers that it does not.

`admin_requests` uses `forward_until`. `leadership_moves` and `telemetry_relay` use `forward`: a failed move is reported
to the client that asked for it, and the publisher of telemetry sends its batch again a second later, for that second's
leader.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cluster.errors import NotControllerError
from model.ids import NodeId
from rpc.errors import FrameTooLargeError, RpcError
from rpc.links import Links
from rpc.methods import Method

Request = TypeVar("Request")
Reply = TypeVar("Reply")

_RETRY_PAUSE = 0.050


class ForwardingError(Exception):
    """No leader has answered."""


class NoLeaderError(ForwardingError):
    """No leader has answered before the deadline; only a request that may be repeated can have taken effect."""


class NoReplyError(ForwardingError):
    """The leader was asked and has not answered: whether the request takes effect is unknown.

    Attributes:
        node_id: The leader.
        cause: What the link says.
    """

    def __init__(self, node_id: NodeId, cause: RpcError) -> None:
        super().__init__(f"node {node_id}: {cause}")
        self.node_id = node_id
        self.cause = cause


class RequestNotTakenError(NoReplyError):
    """The request is too large for any reader: it was not sent, and a repetition would not be sent either."""


@dataclass(frozen=True, slots=True)
class Forwarded(Generic[Request, Reply]):
    """A request and how to run it.

    Attributes:
        method: What is asked over the link.
        request: Its body.
        run_here: Runs the request if this node leads.
        payload: Goes with the body if the request is sent; it is copied then.
    """

    method: Method[Request, Reply]
    request: Request
    run_here: Callable[[Request], Awaitable[Reply]]
    payload: bytearray | None = None


class Forwarder:
    """See the module."""

    def __init__(self, links: Links, self_node: NodeId) -> None:
        self._links = links
        self._self_node = self_node

    async def forward(self, leader: NodeId, forwarded: Forwarded[Request, Reply], timeout: float) -> Reply:
        """Run a request at `leader`, here or there, and return its reply; `timeout` counts only for a request there.

        Raises:
            NoReplyError: It was sent, and there is no reply within `timeout` seconds.
            RequestNotTakenError: It is too large, and was not sent.
        """
        if leader == self._self_node:
            return await forwarded.run_here(forwarded.request)
        buffers = [] if forwarded.payload is None else [bytes(forwarded.payload)]
        try:
            return await self._links.send(
                leader, forwarded.method, forwarded.request, buffers, timeout=max(0.0, timeout)
            )
        except FrameTooLargeError as error:
            raise RequestNotTakenError(leader, error) from error
        except RpcError as error:
            raise NoReplyError(leader, error) from error

    async def forward_until(
        self,
        find_leader: Callable[[], NodeId | None],
        forwarded: Forwarded[Request, Reply],
        checked: Callable[[Reply], Reply],
        deadline: float,
        *,
        is_repeatable: bool,
    ) -> Reply:
        """Run a request at raft0's leader, whoever that is before `deadline` (loop time).

        Args:
            find_leader: Returns who leads now; None: nobody who could be asked.
            forwarded: The request.
            checked: Returns the reply, or raises what it refuses.
            deadline: Nothing is tried after it.
            is_repeatable: That the request may take effect twice does no harm.

        Raises:
            NoLeaderError: Nobody has answered as the leader; says why the last one asked did not.
            NoReplyError, RequestNotTakenError: As `forward`, at the first one for a request that is not repeatable.
            ClusterError: What `checked` or `run_here` raises, except that this node, or the one asked, does not lead.
        """
        loop = asyncio.get_running_loop()
        why = "raft0 has no leader"
        while loop.time() < deadline:
            leader = find_leader()
            try:
                if leader is not None:
                    return checked(await self.forward(leader, forwarded, deadline - loop.time()))
            except NotControllerError as error:
                why = str(error)
            except RequestNotTakenError:
                raise
            except NoReplyError as error:
                if not is_repeatable:
                    raise
                why = str(error)
            await asyncio.sleep(min(_RETRY_PAUSE, max(0.0, deadline - loop.time())))
        raise NoLeaderError(why)
