"""Checks that the data directory that this process holds open is still the one at its path, and how much room it has.

A broker creates and writes all files through the descriptor of its data directory. If that directory is moved,
unmounted or replaced, the broker goes on writing to it, and creates nothing in the directory that now has the path. But
the next start opens the path, and would miss everything that was written in between. Therefore the broker checks the
directory every second and before it creates a replica, and ends if it is not at its path.
"""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass

from cluster.data_directory import GROUPS, read_identity
from cluster.errors import StartupError
from model.ids import Replica
from runtime.environment import Environment
from runtime.gate import Gate
from runtime.workers import Pool
from storage.errors import LostDirectoryError

# A caller of `look` waits at most so long for a disk that does not answer.
_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a look found: free bytes, or what is wrong (`lost`), or why the disk did not tell."""

    free_bytes: int = 0
    lost: str | None = None
    error: OSError | None = None


class DataDirectoryWatch:
    """Looks in a thread of its own, one look at a time: a mount that hangs delays only callers of `look`.

    Args:
        env: Its `files` hold the directory.
        path: Of the directory.
        replica: Whose it was at the start.
        on_lost: Called once, with a line for the operator, when a look finds that the directory is not where it was.
    """

    def __init__(self, env: Environment, path: str, replica: Replica, on_lost: Callable[[str], None]) -> None:
        self._env = env
        self._path = path
        self._replica = replica
        self._on_lost = on_lost
        self._lost: str | None = None
        # If `groups/` is missing at the start, opening raft0 fails with an error that says more.
        self._has_had_groups = False
        self._looking: asyncio.Future[_Seen] | None = None
        self._gate = Gate("data directory")

    async def stop(self) -> None:
        """Look no more; every call that waits for a look raises OSError."""
        await self._gate.close()

    async def look(self) -> int:
        """Compare the directory at the path with the one that is held, in place and identity; return its free bytes.

        Raises:
            LostDirectoryError: They differ, now or at an earlier look: the process ends.
            OSError: The disk does not tell, or not within 5 s.
        """
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_future()
            self._gate.spawn(self._look(self._looking), name="look")
            if self._gate.is_closed:
                self._end(self._looking, _Seen(error=OSError(errno.ECANCELED, "the broker stops", self._path)))
                raise OSError(errno.ECANCELED, "the broker stops", self._path)
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                seen = await asyncio.shield(self._looking)
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, f"no answer for {_LOOK_SECONDS:.0f} s", self._path) from None
        if self._lost is not None:
            raise LostDirectoryError(self._lost)
        if seen.error is not None:
            raise seen.error
        return seen.free_bytes

    async def _look(self, looking: "asyncio.Future[_Seen]") -> None:
        seen = _Seen(error=OSError(errno.ECANCELED, "the broker stops", self._path))
        try:
            seen = await self._env.workers.run(Pool.WATCH, self._compare)
        except OSError as error:
            seen = _Seen(error=error)
        finally:
            self._end(looking, seen)

    def _end(self, looking: "asyncio.Future[_Seen]", seen: _Seen) -> None:
        self._looking = None
        looking.set_result(seen)
        if seen.lost is not None and self._lost is None:
            self._lost = seen.lost
            self._on_lost(seen.lost)

    def _compare(self) -> _Seen:
        """Blocking."""
        files = self._env.files
        node = self._replica.node_id
        cure = f"bring it back, then start this broker again; if it is lost: raftka broker replace {node}"
        if not files.is_in_place():
            return _Seen(lost=f"data directory {self._path} is gone: moved, removed, unmounted or replaced; {cure}")
        try:
            record = read_identity(self._env, self._path)
        except StartupError as error:
            return _Seen(lost=f"{error}; this broker ends")
        if record is None or (record.node_id, record.directory_id) != self._replica:
            found = "no directory.id" if record is None else f"another directory.id, of node {record.node_id}"
            return _Seen(lost=f"data directory {self._path} has been replaced: it holds {found}; {cure}")
        if files.exists(f"{self._path}/{GROUPS}"):
            self._has_had_groups = True
        elif self._has_had_groups:
            return _Seen(lost=f"data directory {self._path} has lost its folder {GROUPS}; {cure}")
        return _Seen(free_bytes=files.free_bytes(self._path))
