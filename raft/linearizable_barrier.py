"""Reads that see everything acknowledged before they began (Raft thesis 6.4: the read index).

A leader that was deposed without knowing it must not answer. A read therefore waits until a majority of every voter
set has answered, in the leader's term, a request that was sent after the read arrived: whoever answers so had not
voted for a newer leader by then. A reply to an earlier request proves nothing (counterexample 1), whether the request
succeeded does not matter, and nothing is fsynced for it.

    reads      a b        c d e           f
               |          |               |
    requests   -> round 1 ---> replies    -> round 2 ---> replies
                           c d e wait for the next round; they share it with f

Requests to each follower are numbered; heartbeats and appends count alike. A round asks for heartbeats of its own at
once instead of waiting for the next tick: of as few followers as make a majority, those that owe the fewest answers,
and of all of them when these take long. What counts is who has answered, not who was asked.
"""

import asyncio
from dataclasses import dataclass

from model.ids import NodeId
from raft.errors import NotLeaderError, RaftError, ReadTimedOutError
from raft.replica_context import ReplicaContext
from raft.rules.agreement import has_majority

# After which a round asks those whom it has spared: many round trips of a healthy network, and no wait to speak of.
_ASK_ALL_SECONDS = 0.005


@dataclass(slots=True, eq=False)
class _Round:
    """Readers that wait for the same replies; `sent_before` is None until the round begins."""

    done: asyncio.Future[None]
    sent_before: dict[NodeId, int] | None = None


class LinearizableBarrier:
    """The readers of one replica: at most one round is under way, at most one waits."""

    def __init__(self, context: ReplicaContext) -> None:
        self._context = context
        self._current: _Round | None = None
        self._next: _Round | None = None

    def arrive(self) -> asyncio.Future[None]:
        """Begin a read now; the future is shared with others and ends with None or NotLeaderError: use `wait`."""
        state = self._context.state
        if not state.is_in_office:
            return _failed(NotLeaderError(f"not in office as the leader of {self._context.name}"))
        if has_majority(state.commit_quorums, {state.node_id}):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            done.set_result(None)
            return done
        if self._current is not None and self._current.sent_before == self._sent():
            return self._current.done
        if self._next is None:
            self._next = _Round(asyncio.get_running_loop().create_future())
        joined = self._next
        if self._current is None:
            self._begin_next()
        return joined.done

    async def wait(self, arrived: asyncio.Future[None]) -> None:
        """Wait until the leadership at the time of `arrive` is confirmed, for at most an election timeout.

        Raises:
            NotLeaderError: It was not, or has ended.
            ReadTimedOutError: No majority has answered in time.
        """
        if arrived.done():
            # Most readers of many partitions find it so: it costs them neither a timer nor a step of the loop.
            arrived.result()
            return
        try:
            async with asyncio.timeout(self._context.options.election_timeout):
                await asyncio.shield(arrived)
        except TimeoutError:
            raise ReadTimedOutError(f"no majority of {self._context.name} has confirmed the leader in time") from None

    def on_reply(self) -> None:
        """A follower has answered in the current term."""
        current, state = self._current, self._context.state
        if current is None or current.sent_before is None or not state.is_leader:
            return
        confirmed = {
            node
            for node, follower in state.followers.items()
            if follower.answered_request > current.sent_before.get(node, 0)
        }
        if not has_majority(state.commit_quorums, confirmed | {state.node_id}):
            return
        self._context.probe.read_rounds += 1
        self._current = None
        current.done.set_result(None)
        if self._next is not None:
            self._begin_next()

    def fail_all(self, error: RaftError) -> None:
        """The leadership has ended."""
        for each in (self._current, self._next):
            if each is not None:
                each.done.set_exception(NotLeaderError(str(error)))
                each.done.exception()  # Nobody may be waiting any more.
        self._current = self._next = None

    def _begin_next(self) -> None:
        assert self._next is not None
        self._current, self._next = self._next, None
        self._current.sent_before = self._sent()
        followers, asked = self._context.state.followers, self._majority()
        self._context.effects.ask_for_heartbeats(asked)
        if len(asked) < len(followers):
            asyncio.get_running_loop().call_later(_ASK_ALL_SECONDS, self._ask_all, self._current)

    def _ask_all(self, asking: _Round) -> None:
        if self._current is asking:
            self._context.effects.ask_for_heartbeats(list(self._context.state.followers))

    def _majority(self) -> list[NodeId]:
        """Return the followers that are likely to answer first, as few as make a majority of every voter set."""
        state, chosen = self._context.state, list[NodeId]()
        up = [node for node in state.followers if self._context.client.is_up(node)]
        for node in sorted(up, key=lambda node: state.followers[node].owed_answers):
            chosen.append(node)
            if has_majority(state.commit_quorums, {*chosen, state.node_id}):
                return chosen
        return list(state.followers)

    def _sent(self) -> dict[NodeId, int]:
        return {node: follower.sent_requests for node, follower in self._context.state.followers.items()}


def _failed(error: RaftError) -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    future.exception()
    return future
