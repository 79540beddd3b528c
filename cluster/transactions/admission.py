"""The question of a partition's leader: may this batch open a transaction here? The coordinator answers (RFC 0021).

    leader of a partition ---- add_to_transaction (51) ----> coordinator of the transactional id

One question is about all partitions of a request. The coordinator adds them to the transaction (`is_add`), or says
which of them were added before.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum

import msgspec

from cluster.forwarding import Forwarded, Forwarder, NoReplyError
from model.ids import Index, NodeId
from rpc.identity import Peer
from rpc.links import Links
from rpc.methods import Method

# A topic's name and the number of the partition.
PartitionName = tuple[str, int]

# The coordinator writes one entry at most, or waits 100 ms for another change.
_TIMEOUT = 5.0


class Admission(IntEnum):
    """What the coordinator says of one partition."""

    YES = 0
    # No coordinator has answered; it may have added the partition.
    AWAY = 1
    # It is loading, or another change of the transaction is under way.
    BUSY = 2
    NOT_IN_TRANSACTION = 3
    OLD_EPOCH = 4
    UNKNOWN_ID = 5


class AddToTransactionRequest(msgspec.Struct, frozen=True, array_like=True):
    """The partitions that a request of a producer would open; `is_add`: add them, else say whether they were added.

    `tables_index` is raft0's index as of which the asker knows these partitions.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: list[PartitionName]
    is_add: bool
    tables_index: int = 0


class AddToTransactionReply(msgspec.Struct, frozen=True, array_like=True):
    """An `Admission` for each partition, in the order of the request."""

    codes: list[int]


ADD_TO_TRANSACTION = Method(51, "add_to_transaction", AddToTransactionRequest, AddToTransactionReply)


class CoordinatorAdmissions:
    """Asks over the links. Until the coordinator's side calls `serve`, there is none: everybody is told AWAY.

    `tables_index` returns raft0's index as of which this node knows the topics.
    """

    def __init__(self, links: Links, self_node: NodeId, tables_index: Callable[[], Index]) -> None:
        self._links = links
        self._tables_index = tables_index
        self._forwarder = Forwarder(links, self_node)
        self._find: Callable[[str], NodeId | None] = lambda transactional_id: None
        self._answer: Callable[[AddToTransactionRequest], Awaitable[AddToTransactionReply]] = _nobody

    def serve(
        self,
        find_coordinator: Callable[[str], NodeId | None],
        answer: Callable[[AddToTransactionRequest], Awaitable[AddToTransactionReply]],
    ) -> None:
        """Let this broker ask, and answer, from now on.

        Args:
            find_coordinator: Returns which node coordinates a transactional id; None: nobody does now.
            answer: Answers as the coordinator. It says AWAY if this node is not the id's.
        """

        async def answer_peer(_: Peer, request: AddToTransactionRequest, __: memoryview) -> AddToTransactionReply:
            return await answer(request)

        self._find, self._answer = find_coordinator, answer
        self._links.register_async(ADD_TO_TRANSACTION, answer_peer)

    async def ask(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Sequence[PartitionName],
        is_add: bool,
        deadline: float,
    ) -> list[Admission]:
        """Return what the coordinator says of each partition before `deadline` (loop time). Never raises."""
        away = [Admission.AWAY] * len(partitions)
        coordinator = self._find(transactional_id)
        if coordinator is None:
            return away
        who = (transactional_id, producer_id, epoch)
        request = AddToTransactionRequest(*who, list(partitions), is_add, self._tables_index())
        seconds = min(_TIMEOUT, deadline - asyncio.get_running_loop().time())
        forwarded = Forwarded(ADD_TO_TRANSACTION, request, self._answer)
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                reply = await self._forwarder.forward(coordinator, forwarded, seconds)
            codes = [Admission(code) for code in reply.codes]
        except (NoReplyError, TimeoutError, ValueError):
            # A code of a newer version says nothing here.
            return away
        return codes if len(codes) == len(partitions) else away


async def _nobody(request: AddToTransactionRequest) -> AddToTransactionReply:
    return AddToTransactionReply([Admission.AWAY] * len(request.partitions))
