"""Everything a caller of `Consensus` can be told went wrong.

Three families, because callers do three different things with them:

* `RetryableError`: not this node or not now; nothing was written by this call, find the leader.
* `AmbiguousError`: the write may still commit; only an idempotent caller may retry without risk of a duplicate.
* `FatalError`: this replica has stopped; another one must take over.

Reads and leadership transfers write nothing; their errors stand beside the families.
"""


class RaftError(Exception):
    """Base of every error the raft package raises on purpose."""


class RetryableError(RaftError):
    """Nothing was written by this call."""


class AmbiguousError(RaftError):
    """The outcome is unknown: the entry may commit after the caller gave up."""


class FatalError(RaftError):
    """The replica cannot continue safely."""


class NotLeaderError(RetryableError):
    """This replica does not lead the group in the expected term."""


class StorageFullError(RetryableError):
    """The disks of the group have no room; nothing of the write stays."""


class NotEnoughReplicasError(RetryableError):
    """Fewer replicas are in sync than the group's answers to acks=all need; nothing was written."""


class ReadTimedOutError(RaftError):
    """No majority has confirmed in time that this replica still leads: what it knows may be old."""


class TransferError(RaftError):
    """The leadership was not handed over."""


class TransferTargetError(TransferError):
    """The target cannot become the leader: no voter, not reachable, or already the leader."""


class TransferRefusedError(TransferError):
    """Another transfer is under way, the target lags too far, or it does not stand; writes go on."""


class TransferTimedOutError(TransferError):
    """The target was not up to date within 300 ms, or not elected within an election timeout."""


class LeadershipLostError(AmbiguousError):
    """The leader stepped down while the write was under way (counterexample 20: answered at once)."""


class ReplicateTimedOutError(AmbiguousError):
    """The level asked for was not reached before the deadline."""


class NotEnoughReplicasAfterAppendError(AmbiguousError):
    """The write is committed, but not on as many replicas as its answer needs before the deadline."""


class ShuttingDownError(AmbiguousError):
    """The replica is being stopped while the write was under way."""


class ReplicaFailedError(FatalError):
    """A write or fsync failed, or the log is damaged: this replica has stopped."""


class InvariantViolatedError(FatalError):
    """A peer's request contradicts committed entries: continuing would lose acknowledged data."""


class UnknownGroupError(RetryableError):
    """This node holds no replica of the group (not yet, or no more)."""
