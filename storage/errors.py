"""Everything that can go wrong below the log's contract, by what the caller may do."""

from model.ids import Index, Term


class StorageError(Exception):
    """Base of every error the storage package raises on purpose."""


class CorruptEntryError(StorageError):
    """Bytes that should be an entry are not: from a peer, close the link; from disk, see RFC 0002."""


class UnknownFormatError(CorruptEntryError):
    """Whole bytes of a format that this version does not know: a newer one wrote them; nothing was touched."""


class CorruptLogError(StorageError):
    """Fatal for the replica: damage below the flushed mark, overlapping or foreign segments.

    Attributes:
        path: The damaged file; None where it is not known.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class DamagedLogError(CorruptLogError):
    """Entries that had been fsynced are damaged or missing; `Log.open(isolate=True)` opens the log without them.

    Attributes:
        lost_end: Last index and last term of what had been there, as far as undamaged bytes tell.
    """

    def __init__(self, message: str, lost_end: tuple[Index, Term], path: str | None = None) -> None:
        super().__init__(message, path)
        self.lost_end = lost_end


class LogPoisonedError(StorageError):
    """Fatal for the replica: a write or an fsync failed and what is on disk is unknown."""


class RefusedError(StorageError):
    """Retryable: nothing has changed, and the same may pass a little later."""


class DiskFullError(RefusedError):
    """Nothing of the append stays; room on the disk lets the next one pass."""


class OpenFilesError(RefusedError):
    """The process or the machine has no descriptor left, not even after idle segments were closed."""


class HungReadError(RefusedError):
    """The disk has not answered a read in time: it is refused, and so are others until one of those that hang ends.

    The others are those of the same log, and those of all logs while HUNG_READS_MAX hang. Nothing has changed.
    """


class SnapshotTooLargeError(StorageError):
    """Retryable: the state has more bytes than a snapshot may hold. Nothing has changed, and the log works on."""


class LogTruncatedError(StorageError):
    """The range asked for is no longer (or not) in the log."""


class ForeignDirectoryError(StorageError):
    """The directory belongs to another group, data directory or format version; nothing was touched."""


class LostDirectoryError(StorageError):
    """Fatal for the node: the data directory is not where it was, or another one has its name; nothing was made."""


class ForeignSegmentError(StorageError):
    """A segment file in the directory is another log's; nothing was touched."""


class MismatchedLogError(StorageError):
    """Kvstore and log directory do not belong together: one of them was lost or replaced; nothing was touched."""


class ReplicaRemovedError(StorageError):
    """The removal of this replica has begun: it never takes part in its group again."""


class KvStoreError(StorageError):
    """Fatal for the node: the kvstore is damaged or its sync failed."""
