"""The cluster of a run: `raftka dev` in the network of the run, with what a nemesis may do to its processes."""

import contextlib
import os
import resource
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from raftka.admin_client import is_answer, not_ready_reason
from raftka.chaos.broker_logs import group_names
from raftka.chaos.errors import ChaosError
from raftka.chaos.small_disks import mount_small_disk, unmount
from raftka.dev.cluster_file import BrokerEntry
from raftka.dev.errors import DevError
from raftka.dev.launcher import broker_config, hang_file, launch, prepare_folder
from raftka.dev.ports import choose_next
from raftka.dev.process_identity import ProcessIdentity
from raftka.dev.supervisor import DevCluster, StartRequest, start_cluster

# Small, so that there are closed segments to damage, and rolls between faults.
_SEGMENT_BYTES = 1024 * 1024
_RESERVE_BYTES = 24 * 1024 * 1024
_LINE_BYTES_MAX = 4096
# What hides a disk: nothing is ever written to it.
_HIDING_BYTES = 64 * 1024
_ANSWER_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Links:
    """Where a broker is: the address of its node links, and the port its clients come to."""

    rpc_host: str
    kafka_port: int


class ChaosCluster:
    """Brokers 1 to `size`, and those that join; a context manager that stops them."""

    def __init__(self, folder: Path, size: int, disk_bytes: int | None, options: str = "") -> None:
        """Prepare a cluster.

        Args:
            folder: Where it lies.
            size: How many brokers it begins with.
            disk_bytes: The size of each broker's disk; None: it has no disk of its own.
            options: More lines of each broker's configuration file.
        """
        self.folder = folder
        self.size = size
        self._left: list[int] = []
        self._disk_bytes = disk_bytes
        self._options = options
        self._mounted: list[Path] = []
        self._cluster: DevCluster | None = None

    def __enter__(self) -> "ChaosCluster":
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _start(self) -> None:
        for node in range(1, self.size + 1):
            self._configure(node)
            if self._disk_bytes is not None:
                mount_small_disk(self.data_dir(node), self._disk_bytes)
                self._mounted.append(self.data_dir(node))
        try:
            self._cluster = start_cluster(StartRequest(nodes=self.size, data_dir=self.folder, has_hang_files=True))
            problems = self._cluster.wait_ready()
        except DevError as error:
            raise ChaosError(f"the cluster does not start: {error}") from error
        if problems:
            raise ChaosError(f"the cluster does not start: {'; '.join(problems)}")

    def _configure(self, node: int) -> None:
        path = self.folder / f"node-{node}"
        path.mkdir(parents=True)
        options = f"log.segment.bytes = {_SEGMENT_BYTES}\nauto.create.topics.enable = false\n{self._options}"
        if self._disk_bytes is not None:
            options += f"disk.reserve.bytes = {_RESERVE_BYTES}\n"
        (path / "broker.toml").write_text(options)

    def _end(self) -> None:
        if self._cluster is not None:
            for node in self.nodes:
                self.resume(node)
            self._cluster.stop()
            self._cluster = None
        for path in self._mounted:
            unmount(path)
        self._mounted.clear()

    @property
    def _dev(self) -> DevCluster:
        assert self._cluster is not None
        return self._cluster

    @property
    def nodes(self) -> Sequence[int]:
        """Every node id: of the brokers that it began with, and of those that have joined and not left."""
        return [broker.node_id for broker in self._dev.state.brokers]

    @property
    def bootstrap(self) -> str:
        """HOST:PORT,... of all brokers."""
        return self._dev.state.bootstrap

    def data_dir(self, node: int) -> Path:
        """Return the folder of a broker's data."""
        return self.folder / f"node-{node}" / "data"

    def admin(self, node: int) -> str:
        """Return HOST:PORT of a broker's admin port."""
        return self._dev.state.broker(node).addresses.admin

    def admins(self) -> dict[int, str]:
        """Return HOST:PORT of the admin port of each broker, by node id."""
        return {broker.node_id: broker.addresses.admin for broker in self._dev.state.brokers}

    def links(self, node: int) -> Links:
        """Return where a broker's packets come from and go to."""
        addresses = self._dev.state.broker(node).addresses
        return Links(addresses.rpc.rpartition(":")[0], int(addresses.kafka.rpartition(":")[2]))

    def kill(self, node: int) -> None:
        """SIGKILL a broker."""
        self._dev.kill(node)

    def start_again(self, node: int) -> None:
        """Start a broker that is dead; whether it serves, the end of the run asks."""
        dev = self._dev
        broker = dev.state.broker(node)
        config = broker_config(dev.folder, dev.state, broker)
        child = launch(dev.folder, broker, config, tied=True, has_hang_file=True)
        dev.children[node] = child
        dev.state = dev.state.with_process(node, ProcessIdentity.of(child.pid))
        with dev.folder.locked():
            dev.folder.save(dev.state)

    def add(self) -> int:
        """Start one broker more, which asks the others to let it in; returns its node id."""
        dev = self._dev
        node = dev.state.next_id
        addresses = choose_next(node, [broker.addresses for broker in dev.state.brokers])
        self._configure(node)
        dev.state = dev.state.with_broker(BrokerEntry(node, addresses))
        prepare_folder(dev.folder, dev.state)
        self.start_again(node)
        return node

    def remove(self, node: int) -> None:
        """Kill a broker and forget it; its log stays, and its node id is not used again."""
        dev = self._dev
        self.kill(node)
        dev.state = dev.state.without_broker(node)
        with dev.folder.locked():
            dev.folder.save(dev.state)
        del dev.children[node]
        self._left.append(node)

    def exit_code(self, node: int) -> int | None:
        """Return how a broker ended; None: it runs."""
        return self._dev.children[node].poll()

    def pause(self, node: int) -> None:
        """SIGSTOP a broker."""
        self._signal(node, signal.SIGSTOP)

    def resume(self, node: int) -> None:
        """SIGCONT a broker."""
        self._signal(node, signal.SIGCONT)

    def _signal(self, node: int, number: signal.Signals) -> None:
        process = self._dev.state.broker(node).process if node in self.nodes else None
        if process is not None:
            process.send_signal(number)

    def closed_segments(self, node: int, topics: tuple[str, ...]) -> list[tuple[str, Path]]:
        """Return the segments of a broker that are written no more, each with its partition."""
        logs = [self._dev.folder.log_path(each) for each in (*self.nodes, *self._left)]
        names = {group.replace("/", "-"): tp for group, tp in group_names(logs).items()}
        found: list[tuple[str, Path]] = []
        for folder in sorted((self.data_dir(node) / "groups").iterdir()):
            tp = names.get(folder.name, "")
            if tp.rpartition("-")[0] in topics:
                found += [(tp, path) for path in sorted(folder.glob("*.log"))[:-1]]
        return found

    def log_size(self, node: int) -> int:
        """Return how long a broker's log is, in bytes."""
        return self._dev.folder.log_path(node).stat().st_size

    def last_line(self, node: int) -> str:
        """Return the last line of a broker's log; what a broker that could not go on says is there."""
        with self._dev.folder.log_path(node).open("rb") as log:
            log.seek(max(0, self.log_size(node) - _LINE_BYTES_MAX))
            lines = log.read().decode(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def has_stopped_replicas(self, node: int, since: int) -> bool:
        """Whether a broker has told, behind byte `since` of its log, that a replica stops until the next start."""
        return b"] stops: " in self._said(node, since)

    def has_lost_its_directory(self, node: int, since: int) -> bool:
        """Whether a broker has told, behind byte `since` of its log, that it ends without its data directory."""
        return b"\nraftka: data directory " in b"\n" + self._said(node, since)

    def has_said(self, node: int, since: int, words: bytes) -> bool:
        """Whether these words are behind byte `since` of a broker's log."""
        return words in self._said(node, since)

    def _said(self, node: int, since: int) -> bytes:
        with self._dev.folder.log_path(node).open("rb") as log:
            log.seek(since)
            return log.read()

    def is_serving(self, node: int) -> bool:
        """Whether a broker runs and its admin port answers: it holds its data directory, and all of it is started."""
        return self.exit_code(node) is None and is_answer(not_ready_reason(self.admin(node), _ANSWER_SECONDS) or "")

    def hang_appends(self, node: int, *, hang: bool) -> None:
        """Let the appends of a broker, of this life and later ones, hang from now on, or go on."""
        path = hang_file(self._dev.folder, node)
        if hang:
            path.touch()
        else:
            path.unlink(missing_ok=True)

    def take_directory_away(self, node: int) -> None:
        """Move a broker's data directory away; a disk of its own is hidden by an empty one."""
        data = self.data_dir(node)
        if data in self._mounted:
            mount_small_disk(data, _HIDING_BYTES)
        else:
            data.rename(_away(data))

    def bring_directory_back(self, node: int) -> None:
        """Undo `take_directory_away`."""
        data = self.data_dir(node)
        if data in self._mounted:
            unmount(data)
        else:
            _away(data).rename(data)

    def limit_descriptors(self, node: int, spare: int) -> tuple[int, int] | None:
        """Leave a broker `spare` descriptors more than it has open.

        Returns its process and the soft limit that it had, for `restore_descriptors`; None: it does not run.
        """
        process = self._dev.state.broker(node).process
        if process is None or self.exit_code(node) is not None:
            return None
        try:
            used = max(map(int, os.listdir(f"/proc/{process.pid}/fd")))
            soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (min(used + 1 + spare, soft), hard))
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        return process.pid, soft

    def restore_descriptors(self, node: int, pid: int, soft: int) -> None:
        """Undo `limit_descriptors`, unless that process has ended."""
        process = self._dev.state.broker(node).process
        if process is None or process.pid != pid or self.exit_code(node) is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    def copy_logs(self, folder: Path) -> dict[int, Path]:
        """Copy every broker's log; returns the copies by node id."""
        folder.mkdir(exist_ok=True)
        copies = {node: folder / f"broker-{node}.log" for node in sorted((*self.nodes, *self._left))}
        for node, copy in copies.items():
            shutil.copyfile(self._dev.folder.log_path(node), copy)
        return copies


def _away(data: Path) -> Path:
    return data.with_name("data-away")
