"""What a node knows of write steps that hang on its disk, for all its replicas.

A step of a replica, or a kvstore sync, hangs: the disk is in doubt, and no replica of the node stands for election.
A probe that began after that passes in time: the doubt is over (`write_probe`).
The probe itself or a kvstore sync hangs: each leader of the node leaves if the others can continue (`leader_watch`).
"""

import logging
from collections.abc import Callable

from raft.probe import RaftProbe
from raft.write_steps import Stall, Step, WriteSteps

_logger = logging.getLogger("raft")


class NodeStalls:
    """One node's. Times are loop times in seconds.

    Attributes:
        probe_steps: The steps of the node's own probe.
        kvstore_since: Returns when the oldest kvstore sync that has not ended began.
        doubt: What has hung, while no probe has passed since; None: nothing.
    """

    def __init__(self, stall_timeout: float) -> None:
        self._stall_timeout = stall_timeout
        self.probe_steps = WriteSteps()
        self.kvstore_since: Callable[[], float | None] = lambda: None
        self.doubt: str | None = None
        self._doubts = 0

    def raise_doubt(self, why: str) -> None:
        """A step of a write hangs here: `why`, for the log and for whoever wants to hand over to this node."""
        self._doubts += 1
        if self.doubt is None:
            _logger.warning("%s: nobody here stands for election until a probe write has passed", why)
        self.doubt = why

    def begin_probe(self) -> Callable[[], None]:
        """Return what to call when the probe that begins now has passed in time.

        It ends the doubt, but not where a step was found to hang meanwhile.
        """
        doubts = self._doubts

        def on_passed() -> None:
            if self._doubts == doubts and self.doubt is not None:
                _logger.warning("a probe write has passed: replicas here stand for election again")
                self.doubt = None

        return on_passed

    def stalls(self, now: float) -> list[Stall]:
        """Return what concerns every replica here: a probe or a kvstore sync that hangs."""
        stalls = self.probe_steps.stalls(now - self._stall_timeout)
        kvstore = self._kvstore_stall(now)
        return stalls if kvstore is None else [*stalls, kvstore]

    def _kvstore_stall(self, now: float) -> Stall | None:
        since = self.kvstore_since()
        return None if since is None or since > now - self._stall_timeout else Stall(Step.KVSTORE, since)


def count_stall(probe: RaftProbe, step: Step) -> None:
    """A step was found to hang."""
    match step:
        case Step.APPEND:
            probe.append_stalls += 1
        case Step.FSYNC:
            probe.flush_stalls += 1
        case Step.KVSTORE:
            probe.kvstore_stalls += 1
