"""One group at its coordinator: the state machine, who waits for its answers, its timer and its writes."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from cluster.groups.records import GroupKey, Key, Value
from kafka_api.groups.group import Group
from kafka_api.groups.group_events import Join, JoinResult, Reply, Store, SyncResult, Ticket
from kafka_api.groups.member import new_member
from kafka_api.groups.member_memory import text_bytes
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import NO_INDEX, Index

# To a member, too large a generation is no commit.
_STORE_ERRORS = {ErrorCode.INVALID_COMMIT_OFFSET_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR}

# What a group costs that is held, on top of its members, about.
_HELD_BYTES = 3 * 1024

T = TypeVar("T")
R = TypeVar("R", JoinResult, SyncResult)


class Writer(Protocol):
    """What a group needs of the partition that keeps it."""

    def write(self, records: Sequence[tuple[Key, Value | None]]) -> "asyncio.Future[Index | ErrorCode]":
        """Append records in this term; the result is their index once they are committed, or a code. Never raises."""
        ...

    def now_ms(self) -> int:
        """Return the wall clock's time."""
        ...

    def settled(self, held: "HeldGroup") -> None:
        """The group has changed: it may need more memory, or none at all."""
        ...


class HeldGroup:
    """See the module. All of it ends with the term of the coordinator.

    Attributes:
        pins: It is kept while there are any, idle or not.
        writes: How many are under way.
        written_index: The newest entry that is known to hold something of this group.
        is_uncertain: A write has failed and may be committed all the same, later in this term: what the table says of
            the group may change once more. A later write that is committed lies behind it, and ends the doubt.
    """

    def __init__(self, group_id: str, group: Group, writer: Writer) -> None:
        self.group_id = group_id
        self.group = group
        self.pins = 0
        self.writes = 0
        self._write_number = 0
        self._doubtful_write = 0
        self._none_under_way = asyncio.Event()
        self.written_index = NO_INDEX
        self.is_uncertain = False
        self.counted_bytes = 0
        self._writer = writer
        self._tickets: dict[Ticket, asyncio.Future[JoinResult | SyncResult]] = {}
        self._next_ticket = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._is_ended = False
        # A restored group has sessions to watch.
        self._settle()

    @property
    def is_idle(self) -> bool:
        """Whether the table knows everything, as soon as `written_index` is applied."""
        is_held = self.pins or self.writes or self._tickets or self.is_uncertain
        return self.group.is_idle and not is_held

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, about."""
        return _HELD_BYTES + text_bytes(self.group_id) + self.group.size_bytes

    def call(self, step: Callable[[float], T]) -> T:
        """Let `step` use the group at this time, and do what the group wants done."""
        result = step(asyncio.get_running_loop().time())
        self._settle()
        return result

    def ask(self, step: Callable[[float, Ticket], None], kind: type[R]) -> "asyncio.Future[R]":
        """Hand a request in; the future is done when the group answers it, or is ended."""
        self._next_ticket += 1
        ticket = self._next_ticket
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[JoinResult | SyncResult] = loop.create_future()
        self._tickets[ticket] = answer
        step(loop.time(), ticket)
        self._settle()
        # The group answers a join with a JoinResult and a sync with a SyncResult.
        return answer  # type: ignore[return-value]

    def write(self, records: Sequence[tuple[Key, Value | None]]) -> "asyncio.Future[ErrorCode]":
        """Append records of this group; the result is NONE once they are committed. Never raises."""
        return self.follow(self._writer.write(records))

    def follow(self, written: "asyncio.Future[Index | ErrorCode]") -> "asyncio.Future[ErrorCode]":
        """Keep in mind that something of this group is being written; the result is NONE once it is committed."""
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.writes += 1
        self._none_under_way.clear()
        self._write_number += 1
        number = self._write_number

        def on_written(result: "asyncio.Future[Index | ErrorCode]") -> None:
            # A write counted as ended before it is would let a deletion overtake it.
            assert self.writes > 0
            self.writes -= 1
            if not self.writes:
                self._none_under_way.set()
            outcome = result.result()
            if not isinstance(outcome, ErrorCode):
                self.written_index = max(self.written_index, outcome)
                if number > self._doubtful_write:
                    self.is_uncertain = False
            elif outcome is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                # Out of time. Every other code says that nothing was written, or that the term is over.
                self.is_uncertain = True
                self._doubtful_write = max(self._doubtful_write, number)
            if not done.done():
                done.set_result(outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE)
            if not self._is_ended:
                self._writer.settled(self)

        written.add_done_callback(on_written)
        return done

    async def until_written(self) -> None:
        """Return when no write is under way."""
        # They do not end in their order: one that is refused at once overtakes those before it.
        while self.writes:
            await self._none_under_way.wait()

    def end(self, error: ErrorCode) -> None:
        """Answer everybody who waits; nothing is done any more."""
        self._is_ended = True
        if self._timer is not None:
            self._timer.cancel()
        self.group.kill(error)
        for effect in self.group.take_effects():
            if isinstance(effect, Reply):
                self._answer(effect)
        # Static members that wait for their new id to be stored.
        for ticket in list(self._tickets):
            self._answer(Reply(ticket, JoinResult(error=error)))

    def _settle(self) -> None:
        for effect in self.group.take_effects():
            match effect:
                case Reply():
                    self._answer(effect)
                case Store():
                    self._store(effect)
                case _:
                    self._arm(effect.at)
        self._writer.settled(self)

    def _answer(self, reply: Reply) -> None:
        answer = self._tickets.pop(reply.ticket, None)
        if answer is not None and not answer.done():
            answer.set_result(reply.result)

    def _store(self, store: Store) -> None:
        group = replace(store.group, state_timestamp=self._writer.now_ms())
        written = self.write([(GroupKey(self.group_id), group)])

        def on_stored(result: asyncio.Future[ErrorCode]) -> None:
            if not self._is_ended:
                error = _STORE_ERRORS.get(result.result(), result.result())
                self.call(lambda now: self.group.stored(now, store.number, error))

        written.add_done_callback(on_stored)

    def _arm(self, at: float) -> None:
        if self._timer is not None and self._timer_at <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self.call(self.group.on_time)


def new_group_bytes(group_id: str, request: Join) -> int:
    """Return what a group will take, about, that somebody is the first to join."""
    return _HELD_BYTES + text_bytes(group_id) + new_member(request.new_member_id, request).size_bytes
