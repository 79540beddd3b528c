"""Producer ids of this broker: handed out one by one from a block that raft0 gave it."""

import asyncio

from cluster.admin_messages import AllocateProducerIdsRequest
from cluster.admin_requests import AdminRequests
from cluster.errors import ControllerUnavailableError
from cluster.producer_id_table import BLOCK_SIZE


class ProducerIds:
    """Every id is given to one producer of the whole cluster, for ever."""

    def __init__(self, admin: AdminRequests) -> None:
        self._admin = admin
        self._next_id = self._end_id = 0
        # Whoever finds the block used up asks for the next one; the others wait for that.
        self._asking = asyncio.Lock()

    def drop_block(self) -> None:
        """The topics have changed, perhaps by a new one: an id that is asked for from now on is of a new block, and so
        larger than all of the blocks before.

        So partitions tell who may have written to a topic of the same name before (`Topic.older_producers`).
        """
        self._end_id = self._next_id

    async def allocate(self, timeout: float) -> int:
        """Return an id that nobody has had, within `timeout` seconds.

        Raises:
            ControllerUnavailableError: The block is used up and raft0 gave no other in time.
        """
        # Again: by the time a waiter runs, a thousand others may have been served.
        while self._next_id == self._end_id:
            await self._allocate_block(timeout)
        # Behind its end begin the ids of another broker: two producers with one id would take each other's batches for
        # retries.
        assert self._next_id < self._end_id
        self._next_id += 1
        return self._next_id - 1

    async def _allocate_block(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline), self._asking:
                if self._next_id == self._end_id:
                    request = AllocateProducerIdsRequest(deadline - loop.time())
                    reply = await self._admin.allocate_producer_ids(request)
                    self._next_id = reply.first_producer_id
                    self._end_id = self._next_id + BLOCK_SIZE
        except TimeoutError:
            raise ControllerUnavailableError(f"no block of producer ids within {timeout:.1f} s") from None
