"""State that is a function of the log: what a replica knows because of the entries it holds (RFC 0008).

A partition's producers are such a state. It follows every append, loses what a truncation removes, and is saved as of
a committed entry, so that the entries before the log start are not needed to know it again.

    leader     admit -> note                     under op_lock, in the order of the log
    follower           note
    both       truncate (a newer leader, or an append that failed) ; commit -> snapshot
    start      restore, note ... note            from the newest snapshot and the entries behind it

A state that must have something durable before it settles some entry is a `HoldingLogState`, too. One whose entries
may be much work is a `PacedLogState`.
"""

from collections.abc import Awaitable, Iterator
from typing import Protocol, runtime_checkable

from model.ids import Index
from raft.errors import RaftError
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import Entry


class LogState(Protocol):
    """See the module. All methods are synchronous and called in one task at a time; none may block.

    What takes long is an iterator: it does about a millisecond's work per step, and other tasks run in between.
    """

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        """Judge, at the leader, an entry that is about to get its place; what was noted before it counts.

        Returns:
            None: It is appended, and `note` follows at once.
            ReplicateResult: It is a duplicate of what lies there: the call is answered at its own level when that
                slot has reached it. Only for a call of one entry.
            RaftError: The call is refused with it; nothing of the call is appended.
        """
        ...

    def note(self, entry: Entry) -> None:
        """Take an entry that got its place at the end of the log; it may still be truncated.

        Entries at or below the index of the last `restore` are known already and must be skipped.
        """
        ...

    def truncate(self, first_removed: Index) -> None:
        """Forget what was noted of the entries from `first_removed` on. What is settled stays."""
        ...

    def commit(self, index: Index) -> None:
        """Settle what was noted up to `index`: it is never truncated. Not above what was noted; may repeat.

        It may come later than the commit itself: what is noted and what is settled must look the same to `admit`. Only
        a bound on the size of the state may count with more than that until all of it is settled.
        """
        ...

    def snapshot(self) -> Iterator[bytes]:
        """Yield what is settled, part by part, the same bytes on every replica that has settled as far.

        Nothing is settled, restored or reset before it has ended; entries may be admitted, noted and truncated.
        """
        ...

    def restore(self, state: bytes, applied_index: Index) -> Iterator[Awaitable[None] | None]:
        """Replace everything, in the last step, by what `snapshot` yielded when `applied_index` was settled.

        What a step yields is awaited before the next one.

        Raises:
            CorruptLogError: The bytes cannot be read.
        """
        ...

    def reset(self) -> None:
        """Forget everything: the log is empty and begins at 1."""
        ...


@runtime_checkable
class HoldingLogState(Protocol):
    """What a `LogState` has beside its own methods if it holds settling up until something is durable."""

    def settles_until(self, index: Index) -> Index:
        """Return how far up to `index` entries may be settled now; nothing is settled meanwhile."""
        ...

    async def wait_until_it_settles(self) -> None:
        """Return once the next entry may be settled. It waits as long as the disk lets it wait."""
        ...


@runtime_checkable
class PacedLogState(Protocol):
    """What a `LogState` has beside its own methods if a single entry may be more than one step's work."""

    def commit_some(self, index: Index) -> Index:
        """As `commit`, but do some milliseconds' work at most; return up to where everything is settled.

        It is called again until that is `index`. Meanwhile entries may be admitted, noted and truncated. No snapshot is
        taken of an entry that is settled in part.
        """
        ...


class NoLogState:
    """The state of a group whose entries say nothing but themselves."""

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        """Admit every entry."""
        return None

    def note(self, entry: Entry) -> None:
        """Nothing to note."""

    def truncate(self, first_removed: Index) -> None:
        """Nothing to forget."""

    def commit(self, index: Index) -> None:
        """Nothing to settle."""

    def snapshot(self) -> Iterator[bytes]:
        """Yield no bytes."""
        return iter(())

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        """Nothing to restore."""
        return iter(())

    def reset(self) -> None:
        """Nothing to forget."""
