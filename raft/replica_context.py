"""What the fibers of one replica share. Fibers import this, never `consensus`.

Locks: `op_lock` orders the local log (append, truncate) and covers nothing else: never a wait for memory, for a
follower or for an fsync. Heartbeats and votes never take it, except that a candidate waits for it once, so that its
own appends have finished or failed before it stands (counterexample 32).
"""

import asyncio
import logging
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from model.ids import GroupId, NodeId
from raft.client import RaftClient
from raft.errors import RaftError, ReplicaFailedError
from raft.interval_figures import IntervalFigures
from raft.log_start_stm import LogStartStm
from raft.node_limits import NodeLimits
from raft.options import RaftOptions
from raft.probe import RaftProbe
from raft.replica_state import ReplicaState
from raft.write_steps import WriteSteps
from runtime.environment import Environment
from runtime.gate import Gate
from storage.errors import StorageError
from storage.kvstore import KvStore
from storage.log import Log


class ReplicaLogger(logging.LoggerAdapter[logging.Logger]):
    """Prefixes every line with group, node, term and role."""

    def __init__(self, group: GroupId, state: ReplicaState, name: str = "raft") -> None:
        super().__init__(logging.getLogger(name))
        self._group = group
        self._state = state

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """Add the prefix `[group nN tT R]`."""
        state = self._state
        return f"[{self._group} n{state.node_id} t{state.term} {state.role.value}] {msg}", kwargs


@dataclass(slots=True)
class ReplicaContext:
    """See the module. The callables are methods of the consensus that owns this context."""

    group: GroupId
    env: Environment
    options: RaftOptions
    state: ReplicaState
    log: Log
    log_state: LogStartStm
    kvstore: KvStore
    client: RaftClient
    probe: RaftProbe
    limits: NodeLimits
    is_internal: bool
    gate: Gate
    logger: ReplicaLogger
    on_failed: Callable[[StorageError | RaftError], None]
    step_down: Callable[[str], None]
    observe_term: Callable[[int], None]
    start_recovery: Callable[[NodeId], None]
    on_reply: Callable[[], None]
    op_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    steps: WriteSteps = field(default_factory=WriteSteps)
    # None: nobody asks for them.
    figures: IntervalFigures | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.options.keeps_figures:
            self.figures = IntervalFigures(self.now())
            self.log.fsync_durations = self.figures.fsync

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
        self.on_failed(error)
        return ReplicaFailedError(str(error))
