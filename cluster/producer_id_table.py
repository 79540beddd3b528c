"""raft0's part of producer ids: where the next block begins. Written by `controller_tables` only."""

from cluster.commands import AllocateProducerIds
from cluster.errors import ProducerIdsTakenError

# Ids of one block. What a broker has not handed out when it stops is lost: of 2^63 that is nothing.
BLOCK_SIZE = 1000


class ProducerIdTable:
    """Blocks are given away in rising order and never twice."""

    def __init__(self) -> None:
        self.next_id = 0

    def apply_allocate(self, block: AllocateProducerIds) -> None:
        """Give a block away.

        Raises:
            ProducerIdsTakenError: It does not begin where the last one ended: two commands asked for the same.
        """
        if block.first != self.next_id:
            raise ProducerIdsTakenError(f"producer ids from {block.first} are asked for, {self.next_id} is next")
        self.next_id += block.count
