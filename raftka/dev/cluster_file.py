"""The folder of a dev cluster and the file that describes it.

    DIR/cluster.json            nodes, addresses, processes
    DIR/secret                  by which the brokers know each other; mode 0600
    DIR/node-N/broker.toml      configuration; written once, may be edited
    DIR/node-N/broker.log
    DIR/node-N/data

Whoever changes cluster.json holds a lock on DIR/lock; it is replaced in one step, so readers need no lock.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from raftka.dev.errors import DevError
from raftka.dev.ports import BrokerAddresses
from raftka.dev.process_identity import ProcessIdentity

# Of a cluster whose brokers are its founders, as every version reads it; and of one that brokers joined or left.
_FOUNDERS_ONLY = 1
_LIVING = 2
# What a broker has in its data directory, by `cluster.data_directory`: its identity, and its replicas, of which it has
# some once its cluster is founded.
_IDENTITY, _GROUPS = "directory.id", "groups"


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    """One broker; `process` is the last one that was started, dead or alive."""

    node_id: int
    addresses: BrokerAddresses
    process: ProcessIdentity | None = None

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.is_alive


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What cluster.json holds.

    Attributes:
        brokers: In the order of their node ids.
        ephemeral: The folder goes away when the cluster is stopped.
        supervisor: `raftka dev` in the foreground; None for a detached or stopped cluster.
        options: What `raftka dev -c` set on every broker; it wins over broker.toml.
        founders: The founders as seeds, ID@HOST:PORT, those that have left among them; empty: all brokers are.
        last_id: The highest node id that a broker ever had: none is used twice. 0: that of the last broker.
    """

    brokers: tuple[BrokerEntry, ...]
    ephemeral: bool
    supervisor: ProcessIdentity | None = None
    options: dict[str, str] = field(default_factory=dict)
    founders: tuple[str, ...] = ()
    last_id: int = 0

    def broker(self, node_id: int) -> BrokerEntry:
        """Return one broker.

        Raises:
            DevError: There is no such node.
        """
        for broker in self.brokers:
            if broker.node_id == node_id:
                return broker
        raise DevError(f"there is no broker {node_id}: the cluster has brokers {self._shown_ids()}")

    def _shown_ids(self) -> str:
        ids = [broker.node_id for broker in self.brokers]
        if len(ids) > 1 and ids == list(range(ids[0], ids[-1] + 1)):
            return f"{ids[0]} to {ids[-1]}"
        return ", ".join(map(str, ids))

    @property
    def next_id(self) -> int:
        """The node id of the next broker that is added."""
        return 1 + max(self.last_id, *(broker.node_id for broker in self.brokers))

    def seeds_of(self, node_id: int, *, joins: bool = False) -> list[str]:
        """Return the seeds of a broker: the founders' if it is one of them, else all other brokers, which it asks.

        Args:
            node_id: Its node id.
            joins: It asks the others also if it is a founder.
        """
        others = [_seed(broker) for broker in self.brokers if broker.node_id != node_id]
        founders = self.founders or tuple(map(_seed, self.brokers))
        is_founder = any(int(seed.partition("@")[0]) == node_id for seed in founders)
        return list(founders) if is_founder and not joins else others

    def with_broker(self, broker: BrokerEntry) -> "ClusterState":
        """Return the state with one broker more, which founds nothing."""
        founders = self.founders or tuple(map(_seed, self.brokers))
        return replace(self, brokers=(*self.brokers, broker), founders=founders, last_id=broker.node_id)

    def without_broker(self, node_id: int) -> "ClusterState":
        """Return the state without a broker; its node id is not used again."""
        founders = self.founders or tuple(map(_seed, self.brokers))
        left = tuple(broker for broker in self.brokers if broker.node_id != node_id)
        return replace(self, brokers=left, founders=founders, last_id=self.next_id - 1)

    def with_process(self, node_id: int, process: ProcessIdentity | None) -> "ClusterState":
        """Return the state with another process for one broker."""
        changed = replace(self.broker(node_id), process=process)
        return replace(self, brokers=tuple(changed if each.node_id == node_id else each for each in self.brokers))

    @property
    def bootstrap(self) -> str:
        """HOST:PORT,... for Kafka clients."""
        return ",".join(broker.addresses.kafka for broker in self.brokers)


def _has_replicas(data: Path) -> bool:
    try:
        return any((data / _GROUPS).iterdir())
    except OSError:
        return False


def default_folder() -> Path:
    """Return `raftka/dev` in the XDG data folder."""
    data_home = os.environ.get("XDG_DATA_HOME", "")
    # The XDG specification: a relative path is invalid and is to be ignored.
    home = Path(data_home) if os.path.isabs(data_home) else Path.home() / ".local" / "share"
    return home / "raftka" / "dev"


@dataclass(frozen=True, slots=True)
class ClusterFolder:
    """Where a dev cluster lives."""

    path: Path

    @property
    def state_path(self) -> Path:
        """The file that describes the cluster."""
        return self.path / "cluster.json"

    @property
    def secret_path(self) -> Path:
        """The file with the cluster secret."""
        return self.path / "secret"

    def node_path(self, node_id: int) -> Path:
        """Return the folder of one broker."""
        return self.path / f"node-{node_id}"

    def data_path(self, node_id: int) -> Path:
        """Return the data directory of one broker."""
        return self.node_path(node_id) / "data"

    def has_identity(self, node_id: int) -> bool:
        """Whether a broker has used its data directory, so that its cluster may know it."""
        return (self.data_path(node_id) / _IDENTITY).exists()

    def has_lost_its_data(self, state: ClusterState, node_id: int) -> bool:
        """Whether a broker's directory is empty, and others show that the cluster was founded.

        Then it must join: with the founders' seeds it would wait for those that are gone, or found another cluster.
        """
        others = (self.data_path(broker.node_id) for broker in state.brokers if broker.node_id != node_id)
        return not self.has_identity(node_id) and any(_has_replicas(path) for path in others)

    def log_path(self, node_id: int) -> Path:
        """Return the log file of one broker."""
        return self.node_path(node_id) / "broker.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the right to change cluster.json.

        Raises:
            DevError: Another command has it.
        """
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DevError(f"another `raftka dev` command is using {self.path}; try again") from None
        try:
            yield
        finally:
            os.close(descriptor)

    def load(self) -> ClusterState | None:
        """Return what cluster.json says; None: there is no cluster here.

        Raises:
            DevError: The file is damaged or from another version.
        """
        try:
            text = self.state_path.read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            document = json.loads(text)
            found = document["format"]
            if found not in (_FOUNDERS_ONLY, _LIVING):
                raise DevError(f"{self.state_path} has format {found}; this version of raftka reads up to {_LIVING}")
            return _from_document(document)
        except (ValueError, KeyError, TypeError) as error:
            cure = f"remove {self.path} to start with a new cluster"
            raise DevError(f"{self.state_path} is damaged ({error!r}); {cure}") from None

    def load_existing(self) -> ClusterState:
        """Return what cluster.json says.

        Raises:
            DevError: There is no cluster here, or the file cannot be read.
        """
        state = self.load()
        if state is None:
            cure = "`raftka dev` creates one; --data-dir selects another folder"
            raise DevError(f"there is no cluster in {self.path} ({cure})")
        return state

    def save(self, state: ClusterState) -> None:
        """Replace cluster.json in one step. Call it with the lock."""
        document = {"format": _LIVING if state.founders else _FOUNDERS_ONLY, **asdict(state)}
        temporary = self.state_path.with_suffix(".tmp")
        with temporary.open("w") as stream:
            json.dump(document, stream, indent=2)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(self.state_path)


def _from_document(document: dict[str, Any]) -> ClusterState:
    brokers = tuple(
        BrokerEntry(int(each["node_id"]), BrokerAddresses(**each["addresses"]), _identity(each["process"]))
        for each in document["brokers"]
    )
    ids = [broker.node_id for broker in brokers]
    if document["format"] == _FOUNDERS_ONLY and ids != list(range(1, len(brokers) + 1)):
        raise ValueError("node ids do not run from 1")
    if not ids or ids != sorted(set(ids)):
        raise ValueError("node ids do not rise")
    # An earlier version had none.
    options = {str(key): str(value) for key, value in dict(document.get("options", {})).items()}
    founders = tuple(map(str, document.get("founders", ())))
    last_id = int(document.get("last_id", 0))
    supervisor = _identity(document["supervisor"])
    return ClusterState(brokers, bool(document["ephemeral"]), supervisor, options, founders, last_id)


def _seed(broker: BrokerEntry) -> str:
    return f"{broker.node_id}@{broker.addresses.rpc}"


def _identity(document: dict[str, Any] | None) -> ProcessIdentity | None:
    return None if document is None else ProcessIdentity(int(document["pid"]), str(document["started"]))
