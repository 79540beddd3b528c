"""Finds steps of writes that hang on a node, and tries after them whether its disk takes writes again.

A probe is a small file in the data directory, written, fsynced and removed through the pools that every log uses, and
then a sync of the kvstore. One is under way at a time, and only while the disk is in doubt.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from model.error_text import reason_of
from raft.node_stalls import NodeStalls, count_stall
from raft.options import RaftOptions
from raft.probe import RaftProbe
from raft.write_steps import Stall, Step, WriteSteps
from runtime.environment import Environment
from runtime.files import File
from runtime.gate import Gate
from runtime.workers import Pool
from storage.errors import KvStoreError
from storage.kvstore import KvStore
from storage.snapshot_file import DISK_FULL

_logger = logging.getLogger("raft")

_NAME = "write.probe"
_BYTES = bytes(4096)
_KEY = "node/write-probe"
# How many times in a stall timeout the steps are looked at.
_LOOKS = 10

Replicas = Callable[[], Iterable[tuple[str, WriteSteps]]]


class WriteProbe:
    """One per node; `watch` runs as long as the node does."""

    def __init__(
        self,
        env: Environment,
        options: RaftOptions,
        kvstore: KvStore,
        directory: str,
        stalls: NodeStalls,
        probe: RaftProbe,
        gate: Gate,
    ) -> None:
        self._env = env
        self._timeout = options.stall_timeout
        self._kvstore = kvstore
        self._path = f"{directory}/{_NAME}"
        self._stalls = stalls
        self._counts = probe
        self._gate = gate
        self._is_probing = False
        # The stalls of the last look, so that each is counted and told once.
        self._seen: frozenset[tuple[str, Stall]] = frozenset()
        self._refused = ""

    async def watch(self, replicas: Replicas) -> None:
        """Look for steps that hang, and probe while there is a doubt; for ever."""
        interval = self._timeout / _LOOKS
        looked_at = self._now()
        while True:
            await asyncio.sleep(interval)
            if not self._stood_still(looked_at):
                self._look(replicas)
            looked_at = self._now()
            if self._stalls.doubt is not None and not self._is_probing:
                self._is_probing = True
                self._gate.spawn(self._probe(), name="write-probe")

    def _stood_still(self, looked_at: float) -> bool:
        """Whether the loop has not run since then: it has not taken the ends of steps, and says nothing of the disk."""
        return self._now() - looked_at >= self._timeout / 2

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()

    def _look(self, replicas: Replicas) -> None:
        now = self._now()
        oldest = now - self._timeout
        seen = [("the node", stall) for stall in self._stalls.stalls(now)]
        for name, steps in replicas():
            seen += [(name, stall) for stall in steps.stalls(oldest)]
        for where, stall in seen:
            self._stalls.raise_doubt(f"its {stall}")
            if (where, stall) not in self._seen:
                count_stall(self._counts, stall.step)
                _logger.warning("%s: the %s for %.1f s by now", where, stall, now - stall.since)
        self._seen = frozenset(seen)

    async def _probe(self) -> None:
        on_passed, began = self._stalls.begin_probe(), self._now()
        try:
            await self._write()
        except (OSError, KvStoreError) as error:
            if reason_of(error) != self._refused:
                _logger.error("the disk refuses a probe write: %s", reason_of(error))
            self._refused = reason_of(error)
        else:
            self._refused = ""
            # What one log waits for may hang longer than the probe.
            if self._now() - began <= self._timeout and not self._seen:
                on_passed()
        finally:
            self._is_probing = False

    async def _write(self) -> None:
        """Raise what the disk or the kvstore raises; a disk without room has answered, which is all that is asked."""
        env, steps = self._env, self._stalls.probe_steps
        try:
            with steps.under_way(Step.APPEND):
                file = await env.workers.run(Pool.APPEND, self._begin)
            with steps.under_way(Step.FSYNC):
                await env.workers.run(Pool.FSYNC, lambda: self._end(file))
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
        self._kvstore.put(_KEY, b"")
        await self._kvstore.sync()

    def _begin(self) -> File:
        files = self._env.files
        if files.exists(self._path):
            files.unlink(self._path)
        file = files.open(self._path, create=True)
        try:
            file.pwritev([_BYTES], 0)
        except OSError:
            file.close()
            raise
        return file

    def _end(self, file: File) -> None:
        try:
            file.fsync()
        finally:
            file.close()
        self._env.files.unlink(self._path)
