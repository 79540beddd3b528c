"""Opens a replica's log and replays its state. Damaged entries are left out if other voters have them.

Log.open           DamagedLogError
vote floor durable the replica refuses candidates that lack the entries which it had (vote_floor)
Log.open(isolate)  the log ends before the damage, the damaged bytes are kept beside it
recovery           the leader sends the removed entries, as to any lagging follower
"""

from typing import NamedTuple

from model.ids import NO_INDEX, GroupId, Index, Term
from raft.configuration_log import ConfigurationLog
from raft.group_configuration import GroupConfiguration
from raft.log_state import LogState
from raft.options import RaftOptions
from raft.replica_directories import ReplicaDirectories
from raft.replica_log_state import ReplicaLogState
from raft.rules.election import LogEnd
from raft.vote_floor import raise_floor, read_floor
from runtime.environment import Environment
from runtime.open_files import OpenFiles
from storage.errors import CorruptLogError, DamagedLogError, StorageError
from storage.group_logger import GroupLogger
from storage.kvstore import KvStore
from storage.log import Log
from storage.options import LogIdentity, LogOptions
from storage.read_ahead import ReadAheadBudget
from storage.read_cache import CacheBudgets, ReadCacheBudget
from storage.rows_budget import RowsBudget
from storage.tail_cache import TailBudget
from storage.verified_ranges import VerifiedBudget


class OpenedLog(NamedTuple):
    """A log, and what follows it."""

    log: Log
    log_state: ReplicaLogState


class ReplicaOpening:
    """Opens the replicas of one node.

    Attributes:
        caches: What their logs keep in memory for readers.
    """

    def __init__(
        self,
        env: Environment,
        open_files: OpenFiles,
        kvstore: KvStore,
        directories: ReplicaDirectories,
        options: RaftOptions,
    ) -> None:
        self._env = env
        self._open_files = open_files
        self._kvstore = kvstore
        self._directories = directories
        self._options = options
        self.caches = CacheBudgets(
            TailBudget(options.tail_cache_bytes),
            ReadCacheBudget(options.read_cache_bytes),
            ReadAheadBudget(options.read_ahead_bytes),
            VerifiedBudget(options.verified_entries, options.range_bytes_min),
            RowsBudget(options.aborted_rows_bytes),
        )

    async def open(
        self,
        group: GroupId,
        options: LogOptions,
        state: LogState,
        known_index: Index,
        configuration: GroupConfiguration,
        *,
        has_peers: bool,
        rescan: frozenset[str] = frozenset(),
        name: str = "",
    ) -> OpenedLog:
        """Open the log of a claimed replica, and let `state` know what it holds.

        Args:
            configuration: What the group was created with.
            known_index: How far the log must reach, from the claim.
            has_peers: Others hold what is damaged here.
            rescan: Segments in which a read has found damage.
            name: What people call the group; empty: its id.

        Raises:
            StorageError: Lost, foreign or damaged without others to ask, or the disk refuses; nothing is open.
        """
        identity = self._directories.identity_of(group, name)
        if read_floor(self._kvstore, group) is not None:
            # The log was opened without its damaged part before: it may be shorter than it has ever been.
            known_index = NO_INDEX
        try:
            log = await self._open(identity, options, known_index, rescan)
        except DamagedLogError as damage:
            if not has_peers:
                advice = "no other replica has what is lost: restore this one"
                raise DamagedLogError(f"{damage}; {advice}", damage.lost_end, damage.path) from damage
            log = await self._isolate(identity, options, rescan, damage, damage.lost_end)
        log_state = ReplicaLogState(log, state, self._options, ConfigurationLog(configuration))
        try:
            await log_state.replay()
        except CorruptLogError as damage:
            # A closed segment is not read at the open, where its index file vouches for it.
            lost_end = (log.dirty_index, log.last_term)
            await log.close()
            if not has_peers or damage.path is None:
                raise
            log = await self._isolate(identity, options, rescan | {damage.path}, damage, lost_end)
            log_state = await self._replayed(log, state, configuration)
        except StorageError:
            await log.close()
            raise
        return OpenedLog(log, log_state)

    async def _replayed(self, log: Log, state: LogState, configuration: GroupConfiguration) -> ReplicaLogState:
        state.reset()
        log_state = ReplicaLogState(log, state, self._options, ConfigurationLog(configuration))
        try:
            await log_state.replay()
        except StorageError:
            await log.close()
            raise
        return log_state

    async def _isolate(
        self,
        identity: LogIdentity,
        options: LogOptions,
        rescan: frozenset[str],
        damage: CorruptLogError,
        lost_end: tuple[Index, Term],
    ) -> Log:
        index, term = lost_end
        GroupLogger(identity.name, "raft").error(
            "entries up to %d@%d are damaged and come from the others: %s", index, term, damage
        )
        await raise_floor(self._kvstore, identity.group, LogEnd(term, index))
        return await self._open(identity, options, NO_INDEX, rescan, isolate=True)

    async def _open(
        self,
        identity: LogIdentity,
        options: LogOptions,
        known_index: Index,
        rescan: frozenset[str],
        *,
        isolate: bool = False,
    ) -> Log:
        return await Log.open(
            self._env,
            self._directories.path_of(identity.group),
            identity,
            options,
            known_index=known_index,
            isolate=isolate,
            rescan=rescan,
            caches=self.caches,
            open_files=self._open_files,
        )
