"""What is done to a dev cluster from another terminal. Only cluster.json and signals are shared with its supervisor."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from raftka.admin_client import is_answer, is_gone, is_leaderless, is_permanent
from raftka.dev.cluster_file import ClusterFolder, default_folder
from raftka.dev.errors import DevError
from raftka.dev.launcher import broker_config, launch
from raftka.dev.process_identity import ProcessIdentity
from raftka.dev.supervisor import (
    DAMAGED_READY_SECONDS,
    READY_SECONDS,
    STOP_SECONDS,
    log_tail,
    stop_brokers,
    wait_brokers_ready,
)

_FOLLOW_POLL = 0.2


def open_folder(data_dir: Path | None) -> ClusterFolder:
    """Return the folder that --data-dir names, or the default one."""
    return ClusterFolder((data_dir or default_folder()).absolute())


def describe(folder: ClusterFolder) -> list[dict[str, Any]]:
    """Return node_id, pid (None: never started or stopped), kafka, admin, data_dir and alive of every broker.

    Raises:
        DevError: There is no cluster here.
    """
    return [
        {
            "node_id": broker.node_id,
            "pid": broker.process.pid if broker.process is not None and broker.is_alive else None,
            "kafka": broker.addresses.kafka,
            "admin": broker.addresses.admin,
            "data_dir": str(folder.data_path(broker.node_id)),
            "alive": broker.is_alive,
        }
        for broker in folder.load_existing().brokers
    ]


def stop_cluster(folder: ClusterFolder) -> bool:
    """Stop the brokers and their supervisor; False: nothing was running.

    Raises:
        DevError: There is no cluster here.
    """
    state = folder.load_existing()
    running = any(broker.is_alive for broker in state.brokers)
    if state.supervisor is not None and state.supervisor.send_signal(signal.SIGTERM):
        running = True
        # It stops its brokers within STOP_SECONDS; whatever it leaves behind is stopped below.
        state.supervisor.wait_gone(2 * STOP_SECONDS)
    stop_brokers(folder, folder.load() or state)
    return running


def kill_broker(folder: ClusterFolder, node_id: int) -> None:
    """SIGKILL one broker and wait until it is gone.

    Raises:
        DevError: There is no such broker, or it does not run.
    """
    process = folder.load_existing().broker(node_id).process
    if process is None or not process.send_signal(signal.SIGKILL):
        raise DevError(f"broker {node_id} is not running")
    process.wait_gone(STOP_SECONDS)


def restart_broker(folder: ClusterFolder, node_id: int) -> tuple[int, list[str]]:
    """Stop one broker if it runs, start it, wait until it serves; returns the new pid and what is not well.

    Where most brokers are dead it cannot serve: then it only has to answer.

    The new process belongs to no supervisor: a foreground `raftka dev` that is stopped stops it too, but one that is
    killed leaves it running (`raftka dev stop` still finds it).

    Raises:
        DevError: There is no such broker, it does not start, or it is in the cluster no longer.
    """
    folder.load_existing()
    with folder.locked():
        state = folder.load_existing()
        broker = state.broker(node_id)
        old = broker.process
        if old is not None and old.send_signal(signal.SIGTERM) and not old.wait_gone(STOP_SECONDS):
            old.send_signal(signal.SIGKILL)
            old.wait_gone(STOP_SECONDS)
        child = launch(folder, broker, broker_config(folder, state, broker), tied=False)
        state = state.with_process(node_id, ProcessIdentity.of(child.pid))
        folder.save(state)
    dead = [each.node_id for each in state.brokers if not each.is_alive]
    has_majority = 2 * len(dead) < len(state.brokers)
    is_final = _IsFinal() if has_majority else is_answer
    reasons = wait_brokers_ready(folder, {broker: child.poll}, READY_SECONDS, None, is_final)
    for reason in filter(is_gone, reasons):
        raise DevError(reason)
    if not has_majority:
        words = ", ".join(map(str, dead))
        cure = "start them too; a cluster serves only while a majority of its brokers runs"
        reasons.append(f"most brokers are dead ({words}): {cure}")
    return child.pid, reasons


class _IsFinal:
    """Whether waiting does not mend a reason: damage, or a partition whose other replicas may be dead."""

    def __init__(self) -> None:
        self._leaderless_since: float | None = None

    def __call__(self, reason: str) -> bool:
        if not is_leaderless(reason):
            self._leaderless_since = None
            return is_permanent(reason)
        now = time.monotonic()
        self._leaderless_since = self._leaderless_since or now
        return now - self._leaderless_since >= DAMAGED_READY_SECONDS


def log_lines(folder: ClusterFolder, nodes: list[int], lines: int, follow: bool) -> Iterator[tuple[int, str]]:
    """Yield (node id, line): the last lines of each broker's log, then, with `follow`, what is added for ever.

    Raises:
        DevError: There is no such broker.
    """
    state = folder.load_existing()
    chosen = [state.broker(node_id).node_id for node_id in nodes] or [each.node_id for each in state.brokers]
    paths = {node_id: folder.log_path(node_id) for node_id in chosen}
    positions = {node_id: path.stat().st_size if path.exists() else 0 for node_id, path in paths.items()}
    for node_id, path in paths.items():
        for line in log_tail(path, lines):
            yield node_id, line
    while follow:
        for node_id, path in paths.items():
            added, positions[node_id] = _added(path, positions[node_id])
            for line in added:
                yield node_id, line
        time.sleep(_FOLLOW_POLL)


def _added(path: Path, position: int) -> tuple[list[str], int]:
    """Return the whole lines behind a position, and the position behind them."""
    try:
        with path.open("rb") as stream:
            stream.seek(position)
            data = stream.read()
    except FileNotFoundError:
        return [], position
    end = data.rfind(b"\n") + 1
    return data[:end].decode(errors="replace").splitlines(), position + end
