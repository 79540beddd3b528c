"""What the fibers of one replica share: facts that they read, and effects that they ask for.

Fibers import this module, never `consensus`.

Locks: whoever changes the local log holds `op_lock`: a leader's round, a follower's appends and truncations, the
install of a snapshot. Nobody holds it while waiting for memory, for a follower, or for the fsync that an answer needs.
A new segment, a truncation, the undo of a failed append, and an install do fsync under it. Heartbeats and votes never
take it. A candidate takes it twice, before its pre-vote and before it enters the new term: each time, its earlier
appends have then finished or failed. So voters compare their logs with an end that the candidate's log keeps
(counterexample 32).
"""

import asyncio
import logging
from collections.abc import Collection, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from model.ids import GroupId, NodeId
from model.replica_tag import TAG, ReplicaTag
from raft.client import RaftClient
from raft.effects import Effect
from raft.errors import RaftError, ReplicaFailedError
from raft.interval_figures import IntervalFigures
from raft.node_limits import NodeLimits
from raft.node_resources import NodeResources
from raft.options import RaftOptions
from raft.probe import RaftProbe
from raft.recovery_throttle import ThrottledMembers
from raft.replica_counts import ReplicaCounts
from raft.replica_log_state import ReplicaLogState
from raft.replica_state import ReplicaState
from raft.write_steps import WriteSteps
from runtime.environment import Environment
from runtime.gate import Gate
from storage.errors import StorageError
from storage.kvstore import KvStore
from storage.log import Log


class ReplicaLogger(logging.LoggerAdapter[logging.Logger]):
    """Prefixes every line with partition, node, term and role; `part` is the logger of the part that speaks."""

    def __init__(self, name: str, state: ReplicaState, part: str = "raft") -> None:
        super().__init__(logging.getLogger(part))
        self._name = name
        self._state = state

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """Add the prefix `[orders-0 n2 t1 L]`."""
        state = self._state
        tag = ReplicaTag(self._name, state.node_id, state.term, state.role.value)
        return tag.on(msg), {**kwargs, "extra": {TAG: tag}}


class ReplicaEffects(Protocol):
    """What a fiber may ask of the replica that it belongs to. None of it waits. `Consensus` does it."""

    def settle(self, effect: Effect | None) -> None:
        """Act on what a transition of the state has returned; None: nothing follows."""
        ...

    def fail(self, error: StorageError | RaftError) -> None:
        """Stop this replica for good: what it holds can no longer be trusted."""
        ...

    def step_down(self, reason: str) -> None:
        """Give leadership up in the current term, if this replica leads."""
        ...

    def observe_term(self, term: int) -> None:
        """Enter `term` as a follower if it is newer."""
        ...

    def ask_for_heartbeats(self, nodes: Collection[NodeId]) -> None:
        """Leader: send these followers a heartbeat before the next tick."""
        ...


@dataclass(slots=True)
class ReplicaContext:
    """See the module. The first six are facts, `effects` is what may be asked for; the rest is made of them."""

    group: GroupId
    node: NodeResources
    state: ReplicaState
    log: Log
    log_state: ReplicaLogState
    is_internal: bool
    effects: ReplicaEffects
    # What log lines and errors call the group: `orders-0`, `raft0`.
    name: str = field(init=False)
    # Of the node, so that a fiber reads `context.options`.
    env: Environment = field(init=False)
    # Some change while the node runs (`GroupManager.change_options`), and are taken over here then.
    options: RaftOptions = field(init=False)
    kvstore: KvStore = field(init=False)
    client: RaftClient = field(init=False)
    probe: RaftProbe = field(init=False)
    limits: NodeLimits = field(init=False)
    # Owns the fibers of this replica.
    gate: Gate = field(init=False)
    logger: ReplicaLogger = field(init=False)
    op_lock: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    steps: WriteSteps = field(init=False, default_factory=WriteSteps)
    # By the configuration of the topic.
    throttled: ThrottledMembers = field(init=False, default=ThrottledMembers())
    # None: nobody asks for them.
    figures: IntervalFigures | None = field(init=False, default=None)
    counts: ReplicaCounts = field(init=False)

    def __post_init__(self) -> None:
        node = self.node
        self.env, self.options, self.kvstore, self.client = node.env, node.options, node.kvstore, node.client
        self.probe, self.limits = node.probe, node.limits
        self.name = self.log.name
        self.gate = Gate(f"{self.group} n{self.state.node_id}")
        self.logger = ReplicaLogger(self.name, self.state)
        self.log.health.node_fsyncs = node.fsyncs
        if self.options.keeps_figures:
            self.figures = IntervalFigures(self.now())
            self.log.health.fsync_durations = self.figures.fsync
        self.counts = ReplicaCounts(node.call_figures, self.figures)

    @property
    def link_name(self) -> str:
        """What messages to peers call the group."""
        return self.node.link_names.name_of(self.group)

    def now(self) -> float:
        """Return the loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def why_not_to_lead(self) -> str | None:
        """Return why the disk lets nobody here take a leadership over; None: it does not."""
        if self.limits.disk.is_full:
            return "has no room on its disk"
        doubt = self.limits.stalls.doubt
        return None if doubt is None else f"waits for a probe write: {doubt}"

    def fail(self, error: StorageError | RaftError) -> ReplicaFailedError:
        """Stop this replica because of `error`; return what its callers are told."""
        self.effects.fail(error)
        return ReplicaFailedError(str(error))
