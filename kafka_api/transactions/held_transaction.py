"""One transactional id at its coordinator: the state machine, who waits for it, and the write that is under way.

A request is put to the machine until it is answered:

    Write                it waits until the record is committed; the answer comes from that
    WAIT                 it waits until something has changed, for 100 ms at most: CONCURRENT_TRANSACTIONS
    NEEDS_PRODUCER_ID    it gets one, and asks again
    an answer            the leadership is confirmed: a coordinator that was deposed and does not know it says nothing

A write ends with its commit, with a refusal, or with the term. A request waits for it for a while only. The write stays
under way after that, and everybody else waits behind it: nobody acts on an outcome that is not known.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple, Protocol

from cluster.transactions.records import StoredTransaction
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.transaction import Transaction
from kafka_api.transactions.transaction_counts import TransactionCounts
from kafka_api.transactions.transaction_events import Answer, Later, Verified, Write
from model.control_batch import Prepare
from model.ids import NO_INDEX, Index

# What a request makes of the machine, at a time (ms of the wall clock), and with a producer id that nobody has had.
Step = Callable[[Transaction, int, int | None], Write | Answer | Verified | Later | None]


class WriteFailure(NamedTuple):
    """A record that is not known to be committed.

    Attributes:
        error: What its request is answered with.
        is_certain: It is not in the log, and never will be. Else the term is over, and nobody here learns the outcome.
    """

    error: ErrorCode
    is_certain: bool


class Owner(Protocol):
    """What an id needs of the partition that keeps it."""

    def write(self, transactional_id: str, record: StoredTransaction | None) -> "asyncio.Future[Index | WriteFailure]":
        """Append the record of an id in this term; the result is its index once committed, or why not. Never fails."""
        ...

    def place(self, index: Index) -> Prepare:
        """Return the place of an entry of this term."""
        ...

    def now_ms(self) -> int:
        """Return the wall clock's time."""
        ...

    async def new_producer_id(self) -> int | None:
        """Return a producer id that nobody has had; None: there is none at the moment."""
        ...

    async def confirm(self) -> ErrorCode:
        """Make sure that this broker has led in this term until now; a code if not."""
        ...

    def changed(self, held: "HeldTransaction") -> None:
        """A write of the id has ended: markers may be due, or a time-out has to be watched."""
        ...

    @property
    def counts(self) -> TransactionCounts:
        """Of this broker."""
        ...

    @property
    def busy_wait(self) -> float:
        """Seconds for which a request waits for another change."""
        ...

    @property
    def write_wait(self) -> float:
        """Seconds for which a request waits for its write."""
        ...


class HeldTransaction:
    """See the module. All of it ends with the term of the coordinator.

    Attributes:
        transactional_id: Which.
        machine: Its state.
        users: Requests that are put to it.
        used_ms: When the last one came.
        written_index: The newest entry that holds a record of it.
        armed_ms: When its time-out is looked at next; None: it is not watched.
        end_pause: Seconds before the end of this decision is written again; 0: it was not written yet.
    """

    __slots__ = (
        "_answered",
        "_is_ended",
        "_owner",
        "_waiters",
        "armed_ms",
        "end_pause",
        "machine",
        "transactional_id",
        "used_ms",
        "users",
        "written_index",
    )

    def __init__(self, transactional_id: str, machine: Transaction, owner: Owner) -> None:
        self.transactional_id = transactional_id
        self.machine = machine
        self.users = 0
        self.used_ms = owner.now_ms()
        self.written_index = NO_INDEX
        self.armed_ms: int | None = None
        self.end_pause = 0.0
        self._owner = owner
        self._answered: asyncio.Future[Answer | None] | None = None
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._is_ended = False

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses it, and nothing of it is on its way."""
        return not (self.users or self.machine.is_writing or self.machine.state.is_prepare)

    async def ask(self, step: Step) -> Answer | Verified | None:
        """Put a request to the machine until it is answered; None: it wants no answer, or there is nothing to do."""
        deadline = asyncio.get_running_loop().time() + self._owner.busy_wait
        fresh_id: int | None = None
        self.users += 1
        self.used_ms = self._owner.now_ms()
        try:
            while not self._is_ended:
                outcome = step(self.machine, self._owner.now_ms(), fresh_id)
                if isinstance(outcome, Write):
                    return await self._written(outcome)
                if outcome is Later.WAIT:
                    if not await self._until_changed(deadline):
                        return Answer(ErrorCode.CONCURRENT_TRANSACTIONS)
                elif outcome is Later.NEEDS_PRODUCER_ID:
                    fresh_id = await self._owner.new_producer_id()
                    if fresh_id is None:
                        return Answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                elif outcome is None:
                    return None
                else:
                    assert not isinstance(outcome, Later)
                    error = await self._owner.confirm()
                    return outcome if error is ErrorCode.NONE else Answer(error)
            return Answer(ErrorCode.NOT_COORDINATOR)
        finally:
            self.users -= 1

    def begin(self, write: Write) -> "asyncio.Future[Answer | None]":
        """Begin a write that the machine has asked for; the future has what its request is answered with."""
        # Section 7 of RFC 0021: one write of an id is under way at a time.
        assert self._answered is None or self._answered.done()
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._answered = answered
        self._owner.write(self.transactional_id, write.record).add_done_callback(self._on_written)
        return answered

    def end(self, error: ErrorCode) -> None:
        """The term is over: answer everybody who waits."""
        self._is_ended = True
        self._answer(Answer(error))
        self._wake()

    async def _written(self, write: Write) -> Answer | None:
        answered = self.begin(write)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._owner.write_wait):
                return await asyncio.shield(answered)
        # It stays under way: it may be committed at any time until the term ends.
        return answered.result() if answered.done() else self.machine.write_timed_out()

    def _on_written(self, done: "asyncio.Future[Index | WriteFailure]") -> None:
        if self._is_ended:
            return
        outcome = done.result()
        if not isinstance(outcome, WriteFailure):
            self.written_index = outcome
            self.end_pause = 0.0
            answer = self.machine.write_committed(self._owner.place(outcome))
            self._owner.counts.count_decision(self.machine.state)
        elif outcome.is_certain:
            answer = self.machine.write_failed(outcome.error)
        else:
            answer = self.machine.write_timed_out(outcome.error)
        self._answer(answer)
        self._wake()
        self._owner.changed(self)

    def _answer(self, answer: Answer | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(answer)

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _until_changed(self, deadline: float) -> bool:
        """Wait for a change of the machine until `deadline` (loop time); return whether there was one."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            async with asyncio.timeout_at(deadline):
                await waiter
        except TimeoutError:
            return False
        finally:
            del self._waiters[waiter]
        return True
