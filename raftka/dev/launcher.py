"""Node folders and broker processes."""

import ctypes
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from raftka.config import BrokerConfig, ConfigError, load_config
from raftka.config_descriptor import config_descriptor
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState
from raftka.dev.errors import DevError
from raftka.harmless_signals import harmless_signals_blocked

_PR_SET_PDEATHSIG = 1
# If a service manager has started `raftka dev`, the service is that process, and none of its brokers (sd_notify(3)).
_SERVICE_VARIABLES = frozenset({"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})


def broker_command(node_id: int, descriptor: int, hang_file: Path | None = None) -> list[str]:
    """Return the command line of a broker process; chaos runs name a file while which exists its appends hang.

    The process inherits `descriptor`, where its configuration is (`config_descriptor`).

    -I: nothing of the caller's folder or PYTHON* variables reaches the broker; -u: log lines appear at once.
    """
    faults = [] if hang_file is None else ["--hang-appends-while", str(hang_file)]
    own = ["--node-id", str(node_id), "--config-fd", str(descriptor)]
    return [sys.executable, "-I", "-u", "-m", "raftka.broker", *own, *faults]


def prepare_folder(folder: ClusterFolder, state: ClusterState) -> None:
    """Write the secret and the node folders of a new cluster; what is there already stays."""
    if not folder.secret_path.exists():
        descriptor = os.open(folder.secret_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(32))
    for broker in state.brokers:
        path = folder.node_path(broker.node_id)
        path.mkdir(mode=0o700, exist_ok=True)
        if not (path / "broker.toml").exists():
            (path / "broker.toml").write_text(_render(_identity_keys(folder, state, broker)))


def broker_config(folder: ClusterFolder, state: ClusterState, broker: BrokerEntry) -> BrokerConfig:
    """Return the configuration of one broker: broker.toml, with the options, addresses and folders of cluster.json.

    Raises:
        DevError: broker.toml was edited into something that cannot be used, or an option cannot.
    """
    # What cluster.json decides wins over the file, so that a folder may be moved.
    identity = _identity_keys(folder, state, broker)
    if taken := sorted(state.options.keys() & identity.keys()):
        raise DevError(f"-c {taken[0]}: `raftka dev` sets this option itself")
    flags = state.options | identity
    file = folder.node_path(broker.node_id) / "broker.toml"
    if not file.exists():
        raise DevError(
            f"{file} is gone: bring it back, or make {file.parent} and copy broker.toml of another broker there"
            " (cluster.json has the addresses); to give up a disk, only the folder data in it is to go"
        )
    try:
        return load_config(flags, file=file)
    except ConfigError as error:
        raise DevError(str(error)) from None


def hang_file(folder: ClusterFolder, node_id: int) -> Path:
    """Return the file that makes a broker's appends hang, where it was launched with it."""
    return folder.node_path(node_id) / "hang-append"


def launch(
    folder: ClusterFolder, broker: BrokerEntry, config: BrokerConfig, tied: bool, *, has_hang_file: bool = False
) -> subprocess.Popen[bytes]:
    """Start a broker in a session of its own (Ctrl-C does not reach it); its log is appended to.

    Args:
        folder: Where the cluster lives.
        broker: Which one.
        config: Its configuration.
        tied: The broker gets SIGTERM when this process dies, however it dies.
        has_hang_file: Its appends hang while `hang_file` exists: for chaos runs alone.
    """
    # The variables of this shell are for the command line; the broker has its configuration already.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RAFTKA_") and name not in _SERVICE_VARIABLES
    }
    descriptor = config_descriptor(config.to_json())
    hangs = hang_file(folder, broker.node_id) if has_hang_file else None
    try:
        with folder.log_path(broker.node_id).open("ab") as log, harmless_signals_blocked():
            return subprocess.Popen(
                broker_command(broker.node_id, descriptor, hangs),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder.node_path(broker.node_id),
                env=environment,
                pass_fds=(descriptor,),
                start_new_session=True,
                preexec_fn=_die_with_parent() if tied else None,
            )
    finally:
        os.close(descriptor)


def _die_with_parent() -> Callable[[], None]:
    # Loaded here: between fork and exec nothing should be imported.
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def ask_for_signal() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        # The parent may have died before the request: nobody would tell then.
        if os.getppid() != parent:
            os._exit(1)

    return ask_for_signal


def _identity_keys(folder: ClusterFolder, state: ClusterState, broker: BrokerEntry) -> dict[str, Any]:
    keys: dict[str, Any] = {
        "node.id": broker.node_id,
        "data.dir": str(folder.data_path(broker.node_id)),
        "cluster.secret.file": str(folder.secret_path),
        "seeds": state.seeds_of(broker.node_id, joins=folder.has_lost_its_data(state, broker.node_id)),
    }
    for name in ("kafka", "rpc", "admin"):
        host, _, port = getattr(broker.addresses, name).rpartition(":")
        keys[f"{name}.address"] = host
        keys[f"{name}.port"] = int(port)
    return keys


def _render(keys: dict[str, Any]) -> str:
    lines = [
        "# Written by `raftka dev` once; options may be added (`raftka config example` lists them).",
        "# Addresses and folders come from ../cluster.json, whatever stands here.",
        *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()),
    ]
    return "\n".join(lines) + "\n"
