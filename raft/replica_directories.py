"""Which replicas this node has: a marker in the kvstore and a directory per group, made and removed in a safe order.

A replica that lost its log must not vote as if it had none: two such replicas of three elect a leader that knows
nothing of what was acknowledged. So the kvstore remembers which logs there must be (RFC 0002 section 9):

    create   directory and replica.id durable -> marker "created" durable -> the replica takes part
    fill     entry 1 fsynced here and committed -> marker "filled", in the background
    remove   marker "removing" durable -> log deleted -> vote deleted -> marker deleted
    leave    gravestone and marker "leaving" durable -> log deleted -> vote deleted, marker "left"
    return   as create, with the vote and the floor of the gravestone, which goes with the marker "created"
    stop     log closed, all of it fsynced -> its last index noted under "clean", durable
    start    log opened with what "clean" says -> "clean" erased, durable -> the replica takes part

A crash between two steps leaves a state from which the next start goes on: a directory without a marker has taken part
in nothing, a replica that is "created" may be filled or not, and one that is "removing" never takes part again (group
ids are not reused). One that is "leaving" takes part again once it has "left", as a new one. "clean" is erased after
the log was opened, so that a refused log is refused again at the next start, and before the replica takes part, which
may truncate what "clean" vouches for.
"""

import re
from collections.abc import Awaitable, Callable

from model.error_text import reason_of
from model.ids import NO_INDEX, DirectoryId, GroupId, Index
from raft.gravestone import gravestone_key, put_gravestone, read_gravestone, revive
from raft.rules.election import LogEnd
from raft.vote_floor import floor_key
from raft.vote_store import vote_key
from runtime.environment import Environment
from runtime.files import FileSystem
from runtime.workers import Pool
from storage.errors import KvStoreError, LogPoisonedError, MismatchedLogError, ReplicaRemovedError
from storage.kvstore import KvStore
from storage.log_directory import discard_log_directory, make_log_directory, require_log_directory
from storage.options import LogIdentity

# A group, or the name of its directory (`path_of`).
_PARTITION = re.compile(r"[0-9a-f]{32}[-/][0-9]+")

_CREATED = b"created"
# The log holds a committed entry, which nothing ever truncates: it is not empty any more for as long as it exists.
_FILLED = b"filled"
_FIRST_INDEX = Index(1)
# The group was deleted.
_REMOVING = b"removing"
# The group goes on elsewhere; its gravestone stays.
_LEAVING = b"leaving"
_LEFT = b"left"
_MARKERS = (None, _CREATED, _FILLED, _REMOVING, _LEAVING, _LEFT)


def marker_key(group: GroupId) -> str:
    """Return the kvstore key that says that this node has, or removes, a replica of the group."""
    return f"raft/{group}/replica"


def clean_key(group: GroupId) -> str:
    """Return the kvstore key that holds the last index of a log that was closed with all of it fsynced."""
    return f"raft/{group}/clean"


class ReplicaDirectories:
    """The replicas of one data directory. Calls for one group do not overlap (their owner's duty).

    `look` raises LostDirectoryError where the data directory is not where it was, OSError where the disk does not tell;
    before either is known no replica is made.
    """

    def __init__(
        self,
        env: Environment,
        kvstore: KvStore,
        directory_id: DirectoryId,
        directory: str,
        look: Callable[[], Awaitable[object]],
    ) -> None:
        self._env = env
        self._look = look
        self._kvstore = kvstore
        self._directory_id = directory_id
        self._directory = directory

    @property
    def path(self) -> str:
        """Where the directories of all groups lie."""
        return self._directory

    def path_of(self, group: GroupId) -> str:
        """Return where the replica of a group lies."""
        return f"{self._directory}/{group.replace('/', '-')}"

    def identity_of(self, group: GroupId, name: str = "") -> LogIdentity:
        """Return what the replica's directory must say of itself, and what people call it."""
        return LogIdentity(group, self._directory_id, name)

    async def claim(self, group: GroupId) -> Index:
        """Make sure that directory and marker exist, both durable; afterwards the replica may take part.

        Returns how far its log must reach at least, all of it fsynced: 0 where it may be empty. The caller opens the
        log with that, then calls `mark_opened`, and only then lets the replica take part.

        Raises:
            MismatchedLogError: The log of a replica that may have taken part is gone, or the kvstore that knew it.
            ReplicaRemovedError: Its removal has begun.
            ForeignDirectoryError: The directory is another's.
            LogPoisonedError: The disk refused.
            LostDirectoryError: The data directory is not where it was: nothing was made.
            KvStoreError: The kvstore has failed, or its marker is damaged.
        """
        marker = self._marker(group)
        if marker in (_REMOVING, _LEAVING):
            raise ReplicaRemovedError(f"{self.path_of(group)}: the removal of this replica has begun")
        if marker in (_CREATED, _FILLED):
            await self._run(group, require_log_directory)
            return max(_FIRST_INDEX if marker == _FILLED else NO_INDEX, self._clean_index(group))
        gravestone = read_gravestone(self._kvstore, group) if marker == _LEFT else None
        if marker == _LEFT and gravestone is None:
            raise MismatchedLogError(
                f"a replica of group {group} has left, and the kvstore lacks its vote: parts of it are lost; bring the"
                " whole data directory back"
            )
        if marker is None and self._kvstore.get(vote_key(group)) is not None:
            raise MismatchedLogError(
                f"the kvstore holds a vote in group {group}, but nothing of the creation of its replica in"
                f" {self.path_of(group)}: parts of it are lost; bring the whole data directory back"
            )
        try:
            await self._look()
        except OSError as error:
            raise LogPoisonedError(f"{self.path_of(group)} is not made: {reason_of(error)}") from error
        await self._run(group, make_log_directory)
        if gravestone is not None:
            revive(self._kvstore, group, gravestone)
        self._kvstore.put(marker_key(group), _CREATED)
        self._kvstore.delete(gravestone_key(group))
        await self._kvstore.sync()
        return NO_INDEX

    async def mark_opened(self, group: GroupId) -> None:
        """The log was opened, and from here on it changes: what a clean stop said of it is forgotten, durably.

        Raises:
            KvStoreError: The kvstore has failed.
        """
        if self._kvstore.get(clean_key(group)) is not None:
            self._kvstore.delete(clean_key(group))
            await self._kvstore.sync()

    async def mark_clean(self, group: GroupId, last_index: Index) -> None:
        """The log was closed, not poisoned, and its entries up to `last_index`, the last one, are fsynced.

        Does nothing for a replica that this node does not have, or whose removal has begun.

        Raises:
            KvStoreError: The kvstore has failed.
        """
        if self._marker(group) in (_CREATED, _FILLED):
            self._kvstore.put(clean_key(group), str(last_index).encode())
            await self._kvstore.sync()

    async def mark_filled(self, group: GroupId) -> None:
        """Note that the log holds a committed entry. Does nothing where that is known, or the removal has begun.

        Raises:
            KvStoreError: The kvstore has failed.
        """
        if self._marker(group) == _CREATED:
            self._kvstore.put(marker_key(group), _FILLED)
            await self._kvstore.sync()

    def is_filled(self, group: GroupId) -> bool:
        """Whether it is known that the log holds a committed entry.

        Raises:
            KvStoreError: The kvstore has failed, or its marker is damaged.
        """
        return self._marker(group) == _FILLED

    async def partitions_on_disk(self) -> list[GroupId]:
        """Return the groups of partitions of which there is a directory or a marker here.

        Raises:
            LogPoisonedError: The disk refused.
        """
        try:
            names = await self._env.workers.run(Pool.READ, lambda: self._env.files.listdir(self._directory))
        except OSError as error:
            raise LogPoisonedError(f"{self._directory}: {reason_of(error)}") from error
        names += [key.removeprefix("raft/").removesuffix("/replica") for key, _ in self._kvstore.items("raft/")]
        groups = [GroupId(name.replace("-", "/")) for name in names if _PARTITION.fullmatch(name)]
        return list(dict.fromkeys(groups))

    async def has_any_of(self, group: GroupId) -> bool:
        """Whether anything is left of a replica: marker, vote or directory.

        Raises:
            LogPoisonedError: The disk refused, or does not answer.
            KvStoreError: The kvstore has failed.
        """
        if self._marker(group) is not None or self._kvstore.get(vote_key(group)) is not None:
            return True
        path = self.path_of(group)
        try:
            return await self._env.workers.run(Pool.READ, lambda: self._env.files.exists(path))
        except OSError as error:
            raise LogPoisonedError(f"{path}: {reason_of(error)}") from error

    async def begin_removal(self, group: GroupId) -> None:
        """Note that the group was deleted; from here on this replica never takes part again, whatever is left of it.

        Raises:
            KvStoreError: The kvstore has failed.
        """
        self._kvstore.put(marker_key(group), _REMOVING)
        await self._kvstore.sync()

    async def begin_leaving(self, group: GroupId, log_end: LogEnd) -> None:
        """Note that the replica leaves this node, while its group goes on. Nothing of it takes part any more.

        Its vote and `log_end`, the end of its log, become the gravestone, in one sync with the marker.

        Raises:
            KvStoreError: The kvstore has failed, or what it has of the replica is damaged.
        """
        assert self.has_replica(group)
        put_gravestone(self._kvstore, group, log_end)
        self._kvstore.put(marker_key(group), _LEAVING)
        await self._kvstore.sync()

    def has_replica(self, group: GroupId) -> bool:
        """Whether there is a replica that takes part, or may.

        Raises:
            KvStoreError: Its marker is damaged.
        """
        return self._marker(group) in (_CREATED, _FILLED)

    def is_leaving(self, group: GroupId) -> bool:
        """Whether the replica has begun to leave, and something of it may still be here.

        Raises:
            KvStoreError: Its marker is damaged.
        """
        return self._marker(group) == _LEAVING

    async def finish_leaving(self, group: GroupId) -> None:
        """Delete what there is of a closed replica after `begin_leaving`, but its gravestone; again after a crash.

        Raises:
            ForeignDirectoryError: The directory is another's or cannot be told to be ours: it stays.
            LogPoisonedError: The disk refused; the next start tries again.
        """
        assert self.is_leaving(group)
        await self._run(group, discard_log_directory)
        # The marker last: a replica that has left finds no vote but that of its gravestone.
        for each in (vote_key, floor_key, clean_key):
            self._kvstore.delete(each(group))
        self._kvstore.put(marker_key(group), _LEFT)

    async def discard_unused(self, group: GroupId) -> None:
        """Delete the directory of a replica that never took part, if there is one: its creation was cut short.

        The next creation here would go on with it. A replica that is not wanted any more would leave it for ever.

        Raises:
            ForeignDirectoryError: The directory is another's or cannot be told to be ours: it stays.
            LogPoisonedError: The disk refused; the next call tries again.
        """
        assert not self.has_replica(group)
        assert not self.is_leaving(group)
        path = self.path_of(group)
        try:
            is_here = await self._env.workers.run(Pool.READ, lambda: self._env.files.exists(path))
        except OSError as error:
            raise LogPoisonedError(f"{path}: {reason_of(error)}") from error
        if is_here:
            await self._run(group, discard_log_directory)

    async def finish_removal(self, group: GroupId) -> None:
        """Delete what there is of a closed replica after `begin_removal`; again after a crash.

        Raises:
            ForeignDirectoryError: The directory is another's or cannot be told to be ours: it stays.
            LogPoisonedError: The disk refused; the next start tries again.
        """
        assert self._marker(group) == _REMOVING
        await self._run(group, discard_log_directory)
        # The marker last. Unsynced: if the deletes are lost, the removal is finished once more.
        for each in (vote_key, floor_key, clean_key, gravestone_key, marker_key):
            self._kvstore.delete(each(group))

    def _marker(self, group: GroupId) -> bytes | None:
        marker = self._kvstore.get(marker_key(group))
        if marker not in _MARKERS:
            raise KvStoreError(f"{marker_key(group)} holds {marker!r}: damaged, or written by a newer version")
        return marker

    def _clean_index(self, group: GroupId) -> Index:
        noted = self._kvstore.get(clean_key(group))
        if noted is None:
            return NO_INDEX
        if not noted.isdigit():
            raise KvStoreError(f"{clean_key(group)} holds {noted!r}: damaged, or written by a newer version")
        return Index(int(noted))

    async def _run(self, group: GroupId, job: Callable[[FileSystem, str, LogIdentity], None]) -> None:
        files, path, identity = self._env.files, self.path_of(group), self.identity_of(group)
        try:
            await self._env.workers.run(Pool.APPEND, lambda: job(files, path, identity))
        except OSError as error:
            raise LogPoisonedError(f"{path}: {reason_of(error)}") from error
