"""Writes to one partition of a coordinator's topic: those of many machines share an entry, its round and its fsync.

    writes     a        b c d               e
               |          |                 |
    entries    -> [a] ---- committed -> [b c d] ---- committed -> [e]
                        b c d wait for a's; they share the next one

At most one entry is under way, and the next one begins one step of the loop after it could. Whatever has come by then
shares it, as far as it has room. So entries grow by themselves while the disks are busy, and a write that comes alone
waits for nobody.

A batch of a transaction has an entry of its own. It waits for those that came before it to be appended, and not until
they are committed.

An entry is refused or committed as a whole. If the table has no room for a shared one, nothing of it was written, and
each of its writes is judged in an entry of its own.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from cluster.partition import Partition
from cluster.state_bounds import StateFullError
from model.ids import ConsistencyLevel, Index, Term
from model.key_value_batch import KeyValue, encode_key_values
from raft.replicate_item import ReplicateResult

# Bytes of keys and values up to which writes share an entry; a larger write goes alone. Every replica decodes an entry
# in one step of its loop.
_SHARED_BYTES_MAX = 64 * 1024

# What a write is answered with that has failed.
F = TypeVar("F")


class TransactionalBatch(NamedTuple):
    """A batch of a transaction; `guard` was taken before the coordinator was asked, None where nobody was."""

    payload: bytearray
    record_count: int
    guard: int | None


class _Write(NamedTuple, Generic[F]):
    """One call: its records and their size in bytes, or its own batch; and who waits.

    `deadline`: until when, in loop time; None: as long as the term.
    """

    records: Sequence[KeyValue]
    size: int
    deadline: float | None
    done: "asyncio.Future[Index | F]"
    batch: TransactionalBatch | None = None


class SharedWrites(Generic[F]):
    """See the module.

    Args:
        partition: Where it writes, in `term` and in no other.
        level: At which it writes.
        timeout: Seconds after which a write that is not committed is given up; it may be committed later. None: a write
            ends with its commit, a refusal, or the term.
        now_ms: The wall clock.
        failure: Makes of an error of the engine what the write is answered with.
        is_durable: Records wait for fsyncs, whatever the topic says; batches of transactions always do.
    """

    def __init__(
        self,
        partition: Partition,
        term: Term,
        level: ConsistencyLevel,
        timeout: float | None,
        now_ms: Callable[[], int],
        failure: Callable[[BaseException], F],
        *,
        is_durable: bool = False,
    ) -> None:
        self._partition = partition
        self._term = term
        self._level = level
        self._timeout = timeout
        self._now_ms = now_ms
        self._failure = failure
        self._is_durable = is_durable
        self._waiting: deque[_Write[F]] = deque()
        self._under_way = 0
        self._is_looking = False

    def write(self, records: Sequence[KeyValue]) -> "asyncio.Future[Index | F]":
        """Append records behind those of all calls before; the result is their index once committed, or the failure.

        They are in one entry as a whole. The future is never cancelled and never fails.
        """
        size = sum(len(record.key) + len(record.value or b"") for record in records)
        return self._wait(records, size, None)

    def write_batch(self, batch: TransactionalBatch) -> "asyncio.Future[Index | F]":
        """As `write`, for a batch of a transaction."""
        return self._wait((), len(batch.payload), batch)

    def _wait(
        self, records: Sequence[KeyValue], size: int, batch: TransactionalBatch | None
    ) -> "asyncio.Future[Index | F]":
        loop = asyncio.get_running_loop()
        deadline = None if self._timeout is None else loop.time() + self._timeout
        write: _Write[F] = _Write(records, size, deadline, loop.create_future(), batch)
        self._waiting.append(write)
        self._look_soon()
        return write.done

    def _may_begin(self) -> bool:
        return bool(self._waiting) and (not self._under_way or self._waiting[0].batch is not None)

    def _look_soon(self) -> None:
        """Begin the next entry in the loop's next step: what else has arrived in this one shares it.

        Without that step the first answer of an entry would bring a write that goes alone, and all others would wait
        for it.
        """
        if not self._is_looking and self._may_begin():
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_looking = False
        while self._may_begin():
            self._begin(self._take())

    def _take(self) -> list[_Write[F]]:
        """Return what shares the next entry: in the order of the calls, so that none overtakes one of its machine."""
        taken = [self._waiting.popleft()]
        size = taken[0].size
        if taken[0].batch is not None:
            return taken
        while self._waiting and self._shares(self._waiting[0], size):
            size += self._waiting[0].size
            taken.append(self._waiting.popleft())
        return taken

    @staticmethod
    def _shares(write: _Write[F], size: int) -> bool:
        return write.batch is None and size + write.size <= _SHARED_BYTES_MAX

    def _begin(self, writes: list[_Write[F]]) -> None:
        # The first came first: nobody waits for longer than its own time.
        deadline, own = writes[0].deadline, writes[0].batch
        if own is not None:
            stages = self._partition.produce(
                *(own.payload, own.record_count, self._level, deadline, self._term),
                guard=own.guard,
                is_durable=True,
            )
        else:
            records = [record for write in writes for record in write.records]
            batch = encode_key_values(records, self._now_ms())
            stages = self._partition.produce(
                *(batch, len(records), self._level, deadline, self._term), is_durable=self._is_durable
            )
        self._under_way += 1
        stages.replicated.add_done_callback(lambda replicated: self._on_replicated(writes, replicated))

    def _on_replicated(self, writes: list[_Write[F]], replicated: "asyncio.Future[ReplicateResult]") -> None:
        # G6 of RFC 0009: whoever shares an entry is answered by the outcome of that entry.
        assert self._under_way > 0
        error = replicated.exception()
        if isinstance(error, StateFullError) and len(writes) > 1:
            # All of them at once: they are appended in this order before anything that waits.
            for write in writes:
                self._begin([write])
        else:
            outcome = replicated.result().last_index if error is None else self._failure(error)
            for write in writes:
                write.done.set_result(outcome)
        self._under_way -= 1
        self._look_soon()
