"""What `raftka dev` keeps on this machine, as parts of a bundle: the ends of the brokers' logs, their configuration."""

import re
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

from raftka.debug.bundle_file import BundleFile
from raftka.debug.deadlines import TimeBudget
from raftka.debug.errors import MissingPartError
from raftka.debug.machine_parts import add_limits
from raftka.debug.secret_mask import SecretMask
from raftka.dev.cluster_file import ClusterFolder, ClusterState
from raftka.dev.operations import describe

_SECONDS = 10.0
_LINE = re.compile(r"""^\s*["']?([\w.-]+)["']?\s*=\s*["']?([^"'\n]+)""", re.MULTILINE)
LOG_BYTES_MAX = 8 * 1024 * 1024


def learn_dev_secrets(mask: SecretMask, folder: ClusterFolder, state: ClusterState) -> None:
    """Let the mask learn the secret of a dev cluster, and those that its configuration names."""
    mask.learn(str(folder.secret_path))
    mask.learn_options(dict(state.options))
    for broker in state.brokers:
        try:
            mask.learn_options(_options(folder, broker.node_id))
        except ValueError:
            mask.learn_options(_likely_options(folder, broker.node_id))
        except OSError:
            continue  # The part of the configuration says it.


def add_dev_parts(bundle: BundleFile, budget: TimeBudget, folder: ClusterFolder, state: ClusterState) -> None:
    """Add the state of the brokers' processes, and of each broker its configuration, its limits and its log."""
    try:
        bundle.add_json("dev/cluster.json", budget.run(_SECONDS, lambda: describe(folder)))
    except MissingPartError as error:
        bundle.miss("dev/cluster.json", str(error))
    for broker in state.brokers:
        node = broker.node_id
        place = f"dev/node-{node}"
        try:
            bundle.add_json(f"{place}/broker.toml.json", budget.run(_SECONDS, partial(_options, folder, node)))
        except MissingPartError as error:
            bundle.miss(f"{place}/broker.toml.json", str(error))
        if broker.process is not None and broker.is_alive:
            add_limits(bundle, budget, f"{place}/limits.txt", str(broker.process.pid))
        else:
            bundle.miss(f"{place}/limits.txt", "the broker does not run")
        _add_log(bundle, budget, f"{place}/broker.log", folder.log_path(node))


def _options(folder: ClusterFolder, node_id: int) -> dict[str, Any]:
    """Return what broker.toml says, with Kafka's dotted keys."""
    with (folder.node_path(node_id) / "broker.toml").open("rb") as stream:
        return dict(_flat("", tomllib.load(stream)))


def _likely_options(folder: ClusterFolder, node_id: int) -> dict[str, Any]:
    """Return what a broker.toml that is no TOML seems to say: somebody has made a mistake in it."""
    try:
        text = (folder.node_path(node_id) / "broker.toml").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return {f"{key} {place}": value for place, (key, value) in enumerate(_LINE.findall(text))}


def _flat(prefix: str, table: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the values of a table, and of the tables in it: in TOML a dot in a key begins one."""
    found = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        found += _flat(f"{name}.", value) if isinstance(value, dict) else [(name, value)]
    return found


def _add_log(bundle: BundleFile, budget: TimeBudget, part: str, path: Path) -> None:
    bytes_max = min(LOG_BYTES_MAX, bundle.room)
    try:
        content, size = budget.run(_SECONDS, lambda: log_end(path, bytes_max))
    except MissingPartError as error:
        bundle.miss(part, str(error))
        return
    cut = None if len(content) == size else f"all but the last {len(content)} of {size} bytes"
    bundle.add_text(part, content, cut=cut)


def log_end(path: Path, bytes_max: int) -> tuple[bytes, int]:
    """Return whole lines at the end of a file, at most so many bytes, and the size of the file.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        begin = max(0, size - bytes_max)
        # The byte before tells whether a line begins there.
        stream.seek(max(0, begin - 1))
        content = stream.read(size - max(0, begin - 1))
    return (content.partition(b"\n")[2] if begin else content), size
