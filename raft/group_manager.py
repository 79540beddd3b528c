"""All groups of this node: create, find, stop, remove; what they share is owned here."""

import asyncio
import contextlib
import logging
import posixpath
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import replace

from model.error_text import reason_of
from model.ids import NO_INDEX, GroupId, NodeId, Replica
from raft.client import RaftClient
from raft.consensus import Consensus
from raft.errors import RaftError, TransferRefusedError, TransferTargetError
from raft.group_configuration import AgreementPolicy, GroupConfiguration, Revision
from raft.heartbeat_manager import HeartbeatManager
from raft.log_state import LogState, NoLogState
from raft.node_resources import ConfigurationGuard, NodeResources, OpenGuard
from raft.options import RaftOptions
from raft.replica_directories import ReplicaDirectories
from raft.replica_opening import ReplicaOpening
from raft.write_probe import WriteProbe
from raft.write_steps import WriteSteps
from runtime.environment import Environment
from runtime.gate import Gate
from runtime.open_files import OpenFiles
from storage.errors import KvStoreError, LostDirectoryError, MismatchedLogError, StorageError
from storage.kvstore import KvStore
from storage.options import LogOptions

_logger = logging.getLogger("raft")

# A stop spends at most so long on snapshots: what has none is replayed by the next start.
_SAVE_SECONDS = 2.0
_SAVED_AT_ONCE = 16


class GroupManager:
    """Owns every `Consensus` of the node.

    `look` returns the free bytes of the data directory, or raises as `DataDirectoryWatch.look` does. `configurations`
    says whether entries of kind 2 may be written here yet; None: they may.

    Attributes:
        open_files: The segment files that all logs share.
        fsyncs: How long the fsyncs of all logs took.
        link_names: What messages call the groups.
    """

    def __init__(
        self,
        env: Environment,
        options: RaftOptions,
        self_replica: Replica,
        kvstore: KvStore,
        client: RaftClient,
        groups_directory: str,
        look: Callable[[], Awaitable[int]],
        configurations: ConfigurationGuard | None = None,
    ) -> None:
        self._look = look
        guard = configurations or OpenGuard()
        self._node = NodeResources(env, options, self_replica, kvstore, client, guard)
        self.limits, self.probe, self.call_figures = self._node.limits, self._node.probe, self._node.call_figures
        self.fsyncs, self.link_names = self._node.fsyncs, self._node.link_names
        self.open_files = OpenFiles(env.files, options.open_segments)
        frugal = replace(env, files=self.open_files)
        self._directories = ReplicaDirectories(frugal, kvstore, self_replica.directory_id, groups_directory, look)
        self._opening = ReplicaOpening(env, self.open_files, kvstore, self._directories, options)
        self.caches = self._opening.caches
        self._groups: dict[GroupId, Consensus] = {}
        # Segments in which a read has found damage, of replicas that were closed because of it.
        self._damaged: dict[GroupId, frozenset[str]] = {}
        self._gate = Gate("groups")
        self.limits.stalls.kvstore_since = lambda: kvstore.syncing_since
        self._heartbeats = HeartbeatManager(client, options, self._gate, self.limits.disk)
        self._leadership_listeners: list[Callable[[Consensus], None]] = []
        # Beside the directory of the groups.
        data_directory = posixpath.dirname(groups_directory)
        self._write_probe = WriteProbe(
            env, options, kvstore, data_directory, self.limits.stalls, self.probe, self._gate
        )

    def start(self) -> None:
        """Begin to send heartbeats and to watch the disk."""
        self._heartbeats.start()
        self._gate.spawn(self._write_probe.watch(self._steps), name="write-steps")
        self._gate.spawn(self._watch_disk(), name="disk")

    async def stop(self) -> None:
        """Stop all groups, one after the other, and note which logs were closed with all of it fsynced."""
        await self._gate.close()
        stopped = list(self._groups.values())
        await self._save_snapshots(stopped)
        for consensus in stopped:
            await consensus.stop()
        self._groups.clear()
        try:
            # All at once: they share the syncs of the kvstore.
            await asyncio.gather(*(self._mark_clean(consensus) for consensus in stopped))
        except KvStoreError as error:
            _logger.error("not noted that the logs were closed clean: %s", error)
        self._node.deadlines.close()

    @staticmethod
    async def _save_snapshots(stopping: Sequence[Consensus]) -> None:
        """Spare the next start what it would replay, as far as that goes in the time."""
        places = asyncio.Semaphore(_SAVED_AT_ONCE)

        async def save(consensus: Consensus) -> None:
            async with places:
                await consensus.save_before_stop()

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SAVE_SECONDS):
                await asyncio.gather(*map(save, stopping))

    async def hand_over(self, seconds: float) -> None:
        """Before `stop`: hand every group that is led here to another voter, all at once, for at most `seconds`."""
        for consensus in self:
            consensus.voter.leave()
        await self.give_leadership(seconds)

    async def give_leadership(self, seconds: float, may_lead: Callable[[NodeId], bool] = lambda _: True) -> None:
        """Hand every group that is led here, and has other replicas, to another voter, for at most `seconds`.

        Only nodes that `may_lead` are asked; a group without such a voter stays here.
        """
        led = [consensus for consensus in self if consensus.is_in_office and len(consensus.configuration.node_ids) > 1]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(_hand_over(consensus, may_lead) for consensus in led))
        left = sum(consensus.state.is_leader for consensus in led)
        if led:
            _logger.info("handed over %d of %d groups that were led here", len(led) - left, len(led))

    def _steps(self) -> Iterator[tuple[str, WriteSteps]]:
        return ((consensus.name, consensus.steps) for consensus in self._groups.values())

    async def _watch_disk(self) -> None:
        while True:
            try:
                self.limits.disk.update_free(await self._look())
            except LostDirectoryError:
                return  # The process ends.
            except OSError as error:
                _logger.warning("the data directory and its free space cannot be looked at: %s", reason_of(error))
            await asyncio.sleep(self._node.options.disk_check_interval)

    async def _mark_clean(self, consensus: Consensus) -> None:
        log = consensus.log
        if consensus.failure is None and not log.is_poisoned and log.flushed_index == log.dirty_index:
            await self._directories.mark_clean(consensus.group, log.dirty_index)

    def add_leadership_listener(self, listener: Callable[[Consensus], None]) -> None:
        """Call `listener` whenever role, term or office of any group may have changed."""
        self._leadership_listeners.append(listener)

    def change_options(self, options: RaftOptions) -> None:
        """Let the groups work by other options from now on; it does not block.

        What may change: `flush_interval` and `flush_bytes`, `unreplicated_bytes` and `unflushed_bytes`,
        `replica_lag_max`, `disk_reserve_bytes`, `leader_throttled_rate`, `follower_throttled_rate` and
        `learner_rate`. The others are read once, and must be as before.
        """
        self._node.options = options
        self.limits.disk.change_reserve(options.disk_reserve_bytes)
        self.limits.throttle.change(options, asyncio.get_running_loop().time())
        for consensus in self:
            consensus.on_options()

    async def create(
        self,
        group: GroupId,
        configuration: GroupConfiguration,
        policy: AgreementPolicy,
        log_options: LogOptions,
        log_state: LogState | None = None,
        *,
        is_internal: bool = False,
        name: str = "",
        has_peers: bool | None = None,
    ) -> Consensus:
        """Open or create this node's replica of a group and start it; `log_state` follows its log, a new one each time.

        Args:
            configuration: What the group was created with; its log may say since that it has other members.
            is_internal: What is written to it is the system's own, and not held back with the producers' batches.
            name: What log lines and errors call the group (`orders-0`); empty: its id.
            has_peers: Whether others hold the group now, and so what is damaged here; None: as `configuration` says.

        Raises:
            ReplicaRemovedError: `remove` was called for it, perhaps by an earlier process.
            StorageError: Directory or kvstore are lost, foreign or damaged, or the disk refuses; nothing was started.
        """
        assert group not in self._groups
        known_index = await self._directories.claim(group)
        if has_peers is None:
            has_peers = len(configuration.node_ids) > 1
        rescan = self._damaged.get(group, frozenset())
        opened = await self._opening.open(
            *(group, log_options, log_state or NoLogState(), known_index, configuration),
            has_peers=has_peers,
            rescan=rescan,
            name=name,
        )
        self._damaged.pop(group, None)
        try:
            await self._directories.mark_opened(group)
        except StorageError:
            await opened.log.close()
            raise
        consensus = Consensus(group, self._node, self, policy, opened, is_internal=is_internal)
        try:
            consensus.start()
        except StorageError:
            await consensus.stop()
            raise
        self._groups[group] = consensus
        self._mark_when_filled(consensus)
        return consensus

    def _mark_when_filled(self, consensus: Consensus) -> None:
        """Once something is committed, and so fsynced here and never truncated, the kvstore remembers it."""

        def look() -> None:
            if consensus.state.commit_index > NO_INDEX:
                consensus.monitor.unwatch(watcher)
                self._gate.spawn(self._mark_filled(consensus), name=f"filled {consensus.group}")

        watcher = consensus.monitor.watch(look)

    async def _mark_filled(self, consensus: Consensus) -> None:
        try:
            await self._directories.mark_filled(consensus.group)
        except KvStoreError as error:
            consensus.fail(error)

    async def close(self, group: GroupId) -> None:
        """Stop this node's replica of a group; `create` opens it again, without what a read has found damaged."""
        consensus = self._groups.pop(group)
        self._heartbeats.forget(consensus)
        if consensus.damage is not None and consensus.damage.path is not None:
            self._damaged[group] = frozenset([consensus.damage.path])
        await consensus.stop()

    async def remove(self, group: GroupId) -> bool:
        """Stop a group and delete its replica here, also one that is not open or half-deleted.

        Only for a group that was deleted: this replica can never come back. Returns whether there was anything.

        Raises:
            StorageError: Something is left; it does not take part any more, and the next call goes on.
        """
        consensus = self._groups.get(group)
        if consensus is None and not await self._directories.has_any_of(group):
            return False
        await self._directories.begin_removal(group)
        if consensus is not None:
            del self._groups[group]
            self._heartbeats.forget(consensus)
            await consensus.remove()
        await self._directories.finish_removal(group)
        return True

    async def leave(self, group: GroupId, revision: Revision) -> bool:
        """Stop this node's replica of a group that goes on elsewhere, and delete it but for its gravestone.

        Call it only for what raft0's tables say as of `revision`, which this node has applied: the group's voters are
        others. Nobody is answered any more before the revisions are compared (RFC 0019 section 5).

        Returns:
            Whether it has left. False: its log has a configuration of a later revision, so it may be wanted again. It
            is closed; `create` opens it.

        Raises:
            MismatchedLogError: It is not open, so the end of its log is not known; nothing has changed.
            StorageError: Something is left; it does not take part any more, and the next call goes on.
        """
        consensus = self._groups.get(group)
        if consensus is not None:
            await self.close(group)
            if consensus.configuration.revision > revision:
                return False
            await self._directories.begin_leaving(group, consensus.state.log_end)
        elif self._directories.has_replica(group):
            raise MismatchedLogError(f"group {group}: its replica is not open here, so it cannot leave yet")
        elif not self._directories.is_leaving(group):
            await self._directories.discard_unused(group)
            return True
        await self._directories.finish_leaving(group)
        return True

    async def partitions_on_disk(self) -> list[GroupId]:
        """Return the groups of partitions that have a directory here, open or not.

        Raises:
            StorageError: The disk refuses.
        """
        return await self._directories.partitions_on_disk()

    def get(self, group: GroupId) -> Consensus | None:
        """Return this node's replica of a group."""
        return self._groups.get(group)

    def named(self, link_name: str) -> Consensus | None:
        """Return this node's replica of the group that a peer calls so; `get` takes the group's id."""
        group = self.link_names.group_of(link_name)
        return None if group is None else self._groups.get(group)

    def __iter__(self) -> Iterator[Consensus]:
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def on_link_reset(self, node_id: NodeId) -> None:
        """A working link to or from a node was lost: its groups may have lost their leader."""
        for consensus in self:
            consensus.on_link_reset(node_id)

    def on_leadership(self, consensus: Consensus) -> None:
        """Tell whoever listens that role, term or office of a group may have changed."""
        self._heartbeats.on_leadership(consensus)
        for listener in self._leadership_listeners:
            listener(consensus)

    def beat_soon(self, consensus: Consensus, nodes: Collection[NodeId]) -> None:
        """Send some followers of one group a heartbeat before the next tick."""
        self._heartbeats.beat_soon(consensus, nodes)


async def _hand_over(consensus: Consensus, may_lead: Callable[[NodeId], bool]) -> None:
    """Try the candidates in turn; one that is being stopped itself refuses at once."""
    for target in filter(may_lead, consensus.transfer.candidates()):
        try:
            await consensus.transfer.run(target)
        except (TransferRefusedError, TransferTargetError):
            continue
        except RaftError:
            return
        return
