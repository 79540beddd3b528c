"""Keeps a replica's `LogState` in step with its log, its commit index and its snapshot (RFC 0006)."""

from model.ids import Index
from raft.errors import RaftError
from raft.log_state import LogState, NoLogState
from raft.replicate_item import NewEntry, ReplicateResult
from storage.entry import Entry
from storage.log import Log

_REPLAY_CHUNK_BYTES = 1024 * 1024


class LogStartStm:
    """See the module. One per replica, from the open of its log on."""

    def __init__(self, log: Log, state: LogState) -> None:
        self._log = log
        self._state = state

    async def replay(self) -> None:
        """Take what is in the log, before the replica takes part.

        Raises:
            StorageError: The log cannot be read.
        """
        if isinstance(self._state, NoLogState):
            return
        index = self._log.start_index
        while index <= self._log.last_index:
            for entry in await self._log.read(index, _REPLAY_CHUNK_BYTES):
                self._state.note(entry)
                index = Index(entry.index + 1)

    # -- following the log --------------------------------------------------------------------------------------

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        """Leader: judge an entry before it gets its place; see `LogState.admit`."""
        return self._state.admit(entry)

    def note(self, entry: Entry) -> None:
        """An entry got its place at the end of the log; if it cannot be written, `truncate` follows."""
        self._state.note(entry)

    def truncate(self, first_removed: Index) -> None:
        """The entries from `first_removed` on are gone."""
        self._state.truncate(first_removed)

    def on_commit(self, commit: Index) -> None:
        """The commit index has moved."""
        self._state.commit(commit)
