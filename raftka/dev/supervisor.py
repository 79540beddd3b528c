"""Starts the brokers of a dev cluster, waits until they serve, watches and stops them.

Brokers that die are reported and not restarted: seeing what a dead broker means is what a dev cluster is for.
"""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from raftka.admin_client import is_gone, is_permanent, not_ready_reason
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState, default_folder
from raftka.dev.ephemeral import new_folder
from raftka.dev.errors import DevError, InterruptedStartError
from raftka.dev.launcher import broker_config, launch, prepare_folder
from raftka.dev.ports import PortRequest, check_free, choose_addresses
from raftka.dev.process_identity import ProcessIdentity
from raftka.error_text import short_reason_of

NODES_MAX = 31
READY_SECONDS = 60.0
DAMAGED_READY_SECONDS = 10.0
STOP_SECONDS = 10.0
_READY_POLL = 0.05
_WATCH_POLL = 0.2
# How a line for the operator begins (raftka.broker.logs).
TOLD = "raftka: "
_LOG_TAIL_LINES = 12


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What was asked for; None: the default, or what the cluster had before.

    Attributes:
        nodes: Number of brokers.
        port: First Kafka port; 0: free ones.
        admin_port: First admin port; 0: free ones.
        rpc_port: Port of the node links; 0: a free one.
        data_dir: Folder of the cluster.
        ephemeral: Use a new temporary folder and remove it at the stop.
        detach: The brokers outlive this process.
        options: Broker options by key, for every broker; kept for later starts.
        has_hang_files: The brokers take hangs from files (`launcher.hang_file`): for chaos runs alone.
    """

    nodes: int | None = None
    port: int | None = None
    admin_port: int | None = None
    rpc_port: int | None = None
    data_dir: Path | None = None
    ephemeral: bool = False
    detach: bool = False
    options: dict[str, str] = field(default_factory=dict)
    has_hang_files: bool = False


@dataclass(slots=True)
class DevCluster:
    """A cluster whose brokers this process started."""

    folder: ClusterFolder
    state: ClusterState
    children: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def wait_ready(self, stop: threading.Event | None = None, seconds: float = READY_SECONDS) -> list[str]:
        """Wait until every broker serves; returns a line for each that does not, where waiting longer does not help.

        Raises:
            DevError: Half of the brokers or more died, or one was not ready in time; with the tail of its log.
            InterruptedStartError: `stop` was set.
        """
        starting = {broker: self.children[broker.node_id].poll for broker in self.state.brokers}
        return wait_brokers_ready(self.folder, starting, seconds, stop)

    def kill(self, node_id: int) -> None:
        """SIGKILL one broker and reap it."""
        process = self.state.broker(node_id).process
        if process is not None:
            process.send_signal(signal.SIGKILL)
        self.children[node_id].wait()

    def start_again(self, node_id: int) -> None:
        """Start a broker that has ended, tied to this process as the others are. Call `wait_ready` next.

        Raises:
            DevError: It runs, or its broker.toml cannot be used.
        """
        with self.folder.locked():
            state = self.folder.load_existing()
            broker = state.broker(node_id)
            if broker.is_alive:
                raise DevError(f"broker {node_id} is already running")
            child = launch(self.folder, broker, broker_config(self.folder, state, broker), tied=True)
            self.children[node_id] = child
            self.state = state.with_process(node_id, ProcessIdentity.of(child.pid))
            self.folder.save(self.state)

    def watch(self, stop: threading.Event, report: Callable[[str], None]) -> None:
        """Report brokers that die or come back (`raftka dev restart`), until `stop` is set."""
        alive: dict[int, ProcessIdentity | None] = {broker.node_id: broker.process for broker in self.state.brokers}
        while not stop.wait(_WATCH_POLL):
            for child in self.children.values():
                child.poll()
            state = self.folder.load()
            if state is None:
                report(f"{self.folder.state_path} is gone; stopping")
                return
            for node_id in sorted(alive.keys() - {broker.node_id for broker in state.brokers}):
                del alive[node_id]
                report(f"broker {node_id} was removed")
            for broker in state.brokers:
                now = broker.process if broker.is_alive else None
                is_new = broker.node_id not in alive
                if now == alive.get(broker.node_id):
                    continue
                alive[broker.node_id] = now
                is_added = is_new and now is not None
                report(f"broker {broker.node_id} was added" if is_added else self._change(broker, now))

    def _change(self, broker: BrokerEntry, now: ProcessIdentity | None) -> str:
        if now is not None:
            return f"broker {broker.node_id} runs again (pid {now.pid})"
        child = self.children.get(broker.node_id)
        how = ""
        is_child = child is not None and broker.process is not None and child.pid == broker.process.pid
        if child is not None and is_child and child.returncode is not None:
            how = f" ({exit_text(child.returncode)})"
        return (
            f"broker {broker.node_id} has died{how}; log: {self.folder.log_path(broker.node_id)};"
            f" start it again: raftka dev restart {broker.node_id} --data-dir {self.folder.path}"
        )

    def stop(self) -> list[int]:
        """Stop every broker, cleanly if it can; remove an ephemeral folder. Returns the node ids that were killed."""
        killed = stop_brokers(self.folder, self.folder.load() or self.state)
        for child in self.children.values():
            child.wait()
        return killed


def start_cluster(request: StartRequest) -> DevCluster:
    """Make the cluster, or resume it, and start its brokers. Call `wait_ready` next, and `stop` whatever happens.

    A folder that is made for it goes again if that fails.

    Raises:
        DevError: A port is taken, a cluster runs here already, or it was made differently.
    """
    folder, is_made = _folder(request)
    with folder.locked():
        # Another command may have been quicker to put something there.
        is_ours = is_made and [each.name for each in folder.path.iterdir()] == ["lock"]
        try:
            state = folder.load()
            if state is None:
                state = _new_state(request)
                prepare_folder(folder, state)
            else:
                _check_resumable(folder, state, request)
            state = replace(state, options=state.options | request.options)
            supervisor = None if request.detach else ProcessIdentity.of(os.getpid())
            cluster = DevCluster(folder, replace(state, supervisor=supervisor))
            _launch_all(cluster, tied=not request.detach, has_hang_files=request.has_hang_files)
        except BaseException:
            if is_ours:
                shutil.rmtree(folder.path, ignore_errors=True)
            raise
    return cluster


def _launch_all(cluster: DevCluster, *, tied: bool, has_hang_files: bool) -> None:
    folder = cluster.folder
    configs = [broker_config(folder, cluster.state, broker) for broker in cluster.state.brokers]
    try:
        for broker, config in zip(cluster.state.brokers, configs, strict=True):
            child = launch(folder, broker, config, tied, has_hang_file=has_hang_files)
            cluster.children[broker.node_id] = child
            cluster.state = cluster.state.with_process(broker.node_id, ProcessIdentity.of(child.pid))
        folder.save(cluster.state)
    except BaseException:
        for child in cluster.children.values():
            child.kill()
            child.wait()
        raise


def _folder(request: StartRequest) -> tuple[ClusterFolder, bool]:
    """Return where the cluster lives, and whether the folder was made just now."""
    if request.ephemeral:
        if request.data_dir is not None:
            raise DevError("--ephemeral uses a folder of its own; leave out --data-dir")
        return new_folder(), True
    path = (request.data_dir or default_folder()).absolute()
    is_made = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise DevError(f"--data-dir {path}: {short_reason_of(error)}") from None
    return ClusterFolder(path), is_made


def _new_state(request: StartRequest) -> ClusterState:
    nodes = 3 if request.nodes is None else request.nodes
    defaults = PortRequest()
    ports = PortRequest(
        kafka=defaults.kafka if request.port is None else request.port,
        admin=defaults.admin if request.admin_port is None else request.admin_port,
        rpc=defaults.rpc if request.rpc_port is None else request.rpc_port,
    )
    addresses = choose_addresses(nodes, ports)
    brokers = tuple(BrokerEntry(node_id, each) for node_id, each in enumerate(addresses, 1))
    return ClusterState(brokers, ephemeral=request.ephemeral)


def _check_resumable(folder: ClusterFolder, state: ClusterState, request: StartRequest) -> None:
    supervised = state.supervisor is not None and state.supervisor.is_alive
    if supervised or any(broker.is_alive for broker in state.brokers):
        raise DevError(
            f"a cluster runs in {folder.path} already, at {state.bootstrap}"
            f" (raftka dev stop --data-dir {folder.path}; to create another cluster, use another --data-dir)"
        )
    if request.nodes not in (None, len(state.brokers)):
        raise DevError(
            f"-n {request.nodes}: the cluster in {folder.path} has another number of brokers, {len(state.brokers)}:"
            " start it without -n, then use `raftka dev add` or `raftka dev remove`; or use another --data-dir"
        )
    first = state.brokers[0].addresses
    for flag, asked, address in (
        ("--port", request.port, first.kafka),
        ("--admin-port", request.admin_port, first.admin),
        ("--rpc-port", request.rpc_port, first.rpc),
    ):
        if asked and asked != int(address.rpartition(":")[2]):
            raise DevError(
                f"{flag} {asked}: the cluster in {folder.path} keeps its addresses ({address}); leave out {flag},"
                " or use another --data-dir"
            )
    check_free([broker.addresses for broker in state.brokers])


def wait_brokers_ready(
    folder: ClusterFolder,
    starting: Mapping[BrokerEntry, Callable[[], int | None]],
    seconds: float,
    stop: threading.Event | None,
    is_final: Callable[[str], bool] = is_permanent,
) -> list[str]:
    """Wait until each broker serves, or there is a final reason why it does not; returns those reasons.

    Where one is in the cluster no longer, its reason has the cure. Where one names damaged data or has ended, the
    others may lack a leader: they are given only DAMAGED_READY_SECONDS more.

    Args:
        folder: Where the cluster lives.
        starting: For each broker what tells its exit code; None while it runs.
        seconds: How long to wait.
        stop: Ends the wait.
        is_final: Whether waiting does not mend a reason.

    Raises:
        DevError: Half of the brokers or more died, or one was not ready in time; with the tail of its log.
        InterruptedStartError: `stop` was set.
    """
    deadline = time.monotonic() + seconds
    waiting = dict(starting)
    final: dict[int, str] = {}
    ended = 0
    while True:
        reasons = {broker: not_ready_reason(broker.addresses.admin, timeout=1.0) for broker in waiting}
        for broker, reason in reasons.items():
            code = waiting[broker]()
            if reason is not None and code is not None:
                ended += 1
                reason = f"it ended while starting ({exit_text(code)})"
                if 2 * ended >= len(starting):
                    raise _start_error(folder, broker, reason)
                reason += f": {last_words(folder.log_path(broker.node_id))}"
            elif reason is not None and is_gone(reason):
                # Nobody else lacks it.
                del waiting[broker]
                final[broker.node_id] = f"{reason}; {cure_of_gone(folder, broker.node_id)}"
                continue
            elif reason is not None and not is_final(reason):
                continue
            del waiting[broker]
            if reason is not None:
                final[broker.node_id] = reason
                deadline = min(deadline, time.monotonic() + DAMAGED_READY_SECONDS)
        late = time.monotonic() >= deadline
        if late and not final and waiting:
            broker = next(iter(waiting))
            raise _start_error(folder, broker, f"it was not ready in time: {reasons[broker]}")
        if late or not waiting:
            final |= {broker.node_id: str(reasons[broker]) for broker in waiting}
            return [f"broker {node_id} is not ready: {reason}" for node_id, reason in sorted(final.items())]
        if stop is not None and stop.is_set():
            raise InterruptedStartError("stopped before the cluster was ready")
        time.sleep(_READY_POLL)


def cure_of_gone(folder: ClusterFolder, node_id: int) -> str:
    """Return what helps a broker of a dev cluster whose data directory never counts again."""
    data = folder.data_path(node_id)
    return (
        f"move {data} away, and nothing else of that folder, then: raftka dev restart {node_id}; if the broker was"
        " removed from the cluster, leave it stopped"
    )


def _start_error(folder: ClusterFolder, broker: BrokerEntry, problem: str) -> DevError:
    log = folder.log_path(broker.node_id)
    tail = "".join(f"\n  | {line}" for line in log_tail(log, _LOG_TAIL_LINES))
    return DevError(f"broker {broker.node_id} is not ready: {problem}; the end of {log}:{tail or ' (empty)'}")


def stop_brokers(folder: ClusterFolder, state: ClusterState) -> list[int]:
    """SIGTERM every broker, SIGKILL what still runs after 10 s; returns whom. Removes an ephemeral folder."""
    running = [broker for broker in state.brokers if broker.process is not None]
    for broker in running:
        assert broker.process is not None
        broker.process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    killed = []
    for broker in running:
        assert broker.process is not None
        if not broker.process.wait_gone(max(0.0, deadline - time.monotonic())):
            broker.process.send_signal(signal.SIGKILL)
            broker.process.wait_gone(STOP_SECONDS)
            killed.append(broker.node_id)
    if state.ephemeral:
        shutil.rmtree(folder.path, ignore_errors=True)
    return killed


def log_tail(path: Path, lines: int) -> list[str]:
    """Return the last lines of a log file; none if there is no such file."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - 400 * (lines + 1)))
            return stream.read().decode(errors="replace").splitlines()[-lines:] if lines > 0 else []
    except FileNotFoundError:
        return []


def last_words(path: Path) -> str:
    """Return why a broker ended, as the end of its log says: what it told its operator, else the last line."""
    lines = log_tail(path, _LOG_TAIL_LINES)
    # Other lines may follow, because the broker's links go on until it has stopped.
    told = [line for line in lines if line.startswith(TOLD)]
    return (told or lines or [""])[-1]


def exit_text(code: int) -> str:
    """Return in words how a process has ended."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
