"""How fast one recovery sends: what the rates of its leader and of its follower let pass (RFC 0004, throttle).

    in sync, or needed      never held: it is not the bulk of a move, and writes would wait with it
    named as a leader       waits for the bucket of this node
    named as a follower     waits for the bucket of the follower's node, which it asks for credit
    neither, and a learner  waits for this node's bucket for learners, until that is seen not to bring it nearer

Each look reads the configuration and the rates as they are now, so a change reaches a recovery that is under way.
"""

import asyncio
from collections.abc import Awaitable, Callable

from raft.follower_index_metadata import FollowerIndexMetadata
from raft.messages import RecoveryCreditReply, RecoveryCreditRequest
from raft.recovery_throttle import RecoveryThrottle
from raft.replica_context import ReplicaContext
from raft.token_bucket import Reservation

# A chunk takes an eighth of a second, so that slow rates are no bursts, and as few requests as its answers need.
_CHUNKS_PER_SECOND = 8
_CHUNK_BYTES_MIN = 16 * 1024
# A follower without a bound is asked this often whether it has one by now.
_ASK_EVERY_SECONDS = 1.0
_NO_RATE = -1


class RecoveryPace:
    """The pace of one recovery of one follower."""

    def __init__(self, context: ReplicaContext, follower: FollowerIndexMetadata) -> None:
        self._context = context
        self._follower = follower
        # As the follower's node has said, and when.
        self._follower_rate = _NO_RATE
        self._asked_at = float("-inf")

    @property
    def _throttle(self) -> RecoveryThrottle:
        return self._context.limits.throttle

    # -- whether it is held -------------------------------------------------------------------------------------

    @property
    def is_throttled(self) -> bool:
        """Whether a rate bounds this recovery now, as far as is known here."""
        return (self._by_leader or self._is_bound_there) and not self._is_exempt

    @property
    def is_unsure(self) -> bool:
        """Whether the follower's node is to be asked (`ask`) before `is_throttled` says anything."""
        is_old = self._context.now() - self._asked_at >= _ASK_EVERY_SECONDS
        return is_old and self._by_follower and not self._is_exempt

    @property
    def is_bound(self) -> bool:
        """Whether any rate bounds this recovery, one that was set or the node's own for learners."""
        return self.is_throttled or self._is_taught

    @property
    def _is_taught(self) -> bool:
        """Whether the node's own bound for learners holds: nobody has set a rate, and the learner comes nearer at it.

        Where producers write more than that, a learner would never get there. Once that was seen, it is sent what it
        lacks as fast as disks and links allow, for as long as this leadership lasts. Internal groups are small, and
        what is moved waits for them.
        """
        context, bucket = self._context, self._throttle.teaching
        if not bucket.is_limited or context.is_internal or self._follower.outgrows_bound:
            return False
        if self.is_throttled or self._is_exempt:
            return False
        learners = context.state.configuration.learners
        return any(learner.node_id == self._follower.node_id for learner in learners)

    @property
    def chunk_bytes(self) -> int:
        """Bytes of entries that one request carries."""
        most = self._context.options.recovery_chunk_bytes
        if not self.is_bound:
            return most
        rates = [self._throttle.sending.rate] if self._by_leader else []
        if self._is_taught:
            rates.append(self._throttle.teaching.rate)
        if self._is_bound_there:
            rates.append(self._follower_rate)
        return min(most, max(_CHUNK_BYTES_MIN, min(rates) // _CHUNKS_PER_SECOND))

    @property
    def _by_leader(self) -> bool:
        return self._throttle.sending.is_limited and self._context.state.node_id in self._context.throttled.leaders

    @property
    def _by_follower(self) -> bool:
        return self._follower.node_id in self._context.throttled.followers

    @property
    def _is_bound_there(self) -> bool:
        return self._by_follower and self._follower_rate != _NO_RATE

    @property
    def _is_exempt(self) -> bool:
        """Whether the follower is in sync, or is a voter without which acks=all waits: those are never held."""
        context, state = self._context, self._context.state
        oldest = context.now() - context.options.replica_lag_max
        if self._follower.is_joined(oldest):
            return True
        in_sync = {node for node, each in state.followers.items() if each.caught_up_at >= oldest} | {state.node_id}
        return any(
            self._follower.node_id in members and sum(member in in_sync for member in members) < needed
            for members, needed in (*state.commit_quorums, *state.answer_quorums)
        )

    # -- waiting ------------------------------------------------------------------------------------------------

    async def ask(self) -> bool:
        """Learn the rate of the follower's node; False: it does not answer."""
        return await self._credit(0) is not None

    async def is_known(self) -> bool:
        """Ask if need be whether the follower's node has a rate; False: it does not answer."""
        return not self.is_unsure or await self.ask()

    async def admit(self, size: int, goes_on: Callable[[], bool]) -> bool:
        """Wait until `size` bytes may be sent.

        Returns:
            Whether they may. False: `goes_on` has become false, or the follower's node does not answer; contact to it
            counts as lost then.
        """
        if not await self.is_known():
            return False
        context, began = self._context, self._context.now()
        if not self.is_bound:
            self._follower.held_back_by = ""
            return goes_on()
        self._tell()
        try:
            if not await self._until_granted(lambda: self._is_taught, self._reserve_as_learner, size, goes_on):
                return False
            if not await self._until_granted(lambda: self._by_leader, self._reserve, size, goes_on):
                return False
            if not await self._until_granted(lambda: self._is_bound_there, self._credit, size, goes_on):
                return False
        finally:
            context.probe.throttled_seconds += context.now() - began
        context.probe.throttled_bytes += size
        self._follower.trend.count(size)
        return True

    def count(self, size: int) -> None:
        """Count bytes that were not held, at the end of a recovery that was."""
        if self._by_leader and not self._is_exempt:
            self._throttle.sending.count(size, self._context.now())

    async def _until_granted(
        self,
        is_asked: Callable[[], bool],
        reserve: Callable[[int], Awaitable[Reservation | None]],
        size: int,
        goes_on: Callable[[], bool],
    ) -> bool:
        while goes_on():
            trend, is_taught = self._follower.trend, self._is_taught
            trend.look(self._context.now(), self._context.probe.bytes_appended, is_taught=is_taught)
            if is_taught and trend.is_losing:
                self._follower.outgrows_bound = True
            if not is_asked() or self._is_exempt:
                return True
            reservation = await reserve(size)
            if reservation is None:
                return False
            if reservation.seconds > 0.0:
                await self._throttle.pause(reservation.seconds)
            if reservation.is_granted:
                return goes_on()
        return False

    async def _reserve(self, size: int) -> Reservation:
        return self._throttle.sending.reserve(size, self._context.now())

    async def _reserve_as_learner(self, size: int) -> Reservation:
        return self._throttle.teaching.reserve(size, self._context.now())

    async def _credit(self, size: int) -> Reservation | None:
        """Ask the follower's node for credit; None: it does not answer."""
        reply = await self._answer(RecoveryCreditRequest(self._context.link_name, size))
        if reply is None:
            if self._context.state.followers.get(self._follower.node_id) is self._follower:
                self._follower.on_lost_contact()
            return None
        self._follower_rate, self._asked_at = reply.rate, self._context.now()
        return Reservation(reply.is_granted, reply.wait_us / 1_000_000)

    async def _answer(self, request: RecoveryCreditRequest) -> RecoveryCreditReply | None:
        future = self._context.client.recovery_credit(self._follower.node_id, request)
        answered = asyncio.Event()
        future.add_done_callback(lambda _: answered.set())
        await answered.wait()
        return None if future.cancelled() or future.exception() is not None else future.result()

    # -- what is told of it -------------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Say to what rate the follower is held, and whether it comes nearer."""
        if not self.is_throttled:
            rate, node = self._throttle.teaching.rate, self._context.state.node_id
            self._follower.held_back_by = (
                f"at most {rate} bytes/s: replication.learner.bytes.per.second of broker {node}"
            )
            return
        bounds = []
        if self._by_leader:
            bounds.append((self._throttle.sending.rate, "leader", self._context.state.node_id))
        if self._is_bound_there:
            bounds.append((self._follower_rate, "follower", self._follower.node_id))
        rate, role, node = min(bounds)
        text = f"at most {rate} bytes/s: {role}.replication.throttled.rate of broker {node}"
        if self._follower.trend.is_losing:
            text += "; as much is written meanwhile, so it does not come nearer until the rate is raised"
        self._follower.held_back_by = text
