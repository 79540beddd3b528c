"""RFC 0002 section 12: a replica stops because of its disk, and never for want of a descriptor."""

import errno
import os

from raft.replica_state import Role
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import ReplicaView, Standing

# What no disk answers: the process has no descriptor left, has closed a file that it uses, or makes one twice.
_OWN_FAULTS = tuple(os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.EBADF, errno.EEXIST))


class FailuresHaveReasons(Invariant):
    """No replica stops for what is its own process's doing."""

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        if view.now.role is not Role.FAILED or before.role is Role.FAILED:
            return
        failure = str(view.consensus.failure)
        if any(fault in failure for fault in _OWN_FAULTS):
            self.violated(view, f"it has stopped for no fault of its disk: {failure}")
