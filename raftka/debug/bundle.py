"""Which parts a bundle has, in which order.

Configurations come first: from them the mask learns what is secret. Groups and the doctor come last: brokers that hang
may cost their time, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from raftka.debug.admin_parts import add_admin_parts, other_admins
from raftka.debug.bundle_file import BundleFile
from raftka.debug.deadlines import TimeBudget
from raftka.debug.dev_parts import add_dev_parts, learn_dev_secrets
from raftka.debug.kafka_parts import add_doctor, add_groups, find_admins, read_cluster, read_configs
from raftka.debug.machine_parts import add_machine_parts
from raftka.debug.secret_mask import SecretMask
from raftka.dev.cluster_file import ClusterFolder, ClusterState
from raftka.kafka.client import DEFAULT_BROKERS, addresses

# What admin.port is by default.
ADMIN_PORT = 9644
_HINT = "name its admin port with --admin"


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """What a bundle is made of.

    Attributes:
        out: The file; it must not exist.
        brokers: Bootstrap addresses; None: those of the dev cluster, or the default.
        admins: Admin addresses, besides those that brokers tell.
        folder: Where a dev cluster may be.
        is_dev: The cluster in that folder is asked for, whatever the addresses.
        seconds: How long all parts may take.
    """

    out: Path
    brokers: str | None
    admins: Sequence[str]
    folder: ClusterFolder
    is_dev: bool
    seconds: float


class BundleSummary(NamedTuple):
    """What was written: the size of the file, and what the manifest says of each part."""

    size: int
    parts: list[dict[str, Any]]


def make_bundle(request: BundleRequest) -> BundleSummary:
    """Write a bundle, with whatever answers in time.

    Raises:
        BundleError: The file cannot be written; nothing of it stays.
        DevError: The file of the dev cluster is damaged.
    """
    state = _dev_cluster(request)
    brokers = request.brokers or (state.bootstrap if state is not None else DEFAULT_BROKERS)
    mask, budget = SecretMask(), TimeBudget(request.seconds)
    if state is not None:
        learn_dev_secrets(mask, request.folder, state)
    with BundleFile(request.out, mask) as bundle:
        cluster = read_cluster(bundle, budget, brokers)
        admins = {} if cluster is None else read_configs(bundle, budget, brokers, cluster, mask)
        if state is not None:
            admins = {each.node_id: each.addresses.admin for each in state.brokers} | admins
        _add_brokers(bundle, budget, brokers, admins, request.admins)
        folders = [request.out.absolute().parent]
        if state is not None:
            folders += [request.folder.node_path(each.node_id) / "data" for each in state.brokers]
        add_machine_parts(bundle, budget, folders)
        if state is not None:
            add_dev_parts(bundle, budget, request.folder, state)
        if cluster is None:
            bundle.miss("cluster/groups.json", "not asked for: see cluster/topics.json")
        else:
            add_groups(bundle, budget, brokers)
        add_doctor(bundle, budget, brokers)
        size = bundle.finish({"brokers": brokers, "admins": list(request.admins)})
        return BundleSummary(size, bundle.parts)


def _add_brokers(
    bundle: BundleFile, budget: TimeBudget, brokers: str, admins: dict[int, str], given: Sequence[str]
) -> None:
    """Add what the admin ports answer: of `admins` by node id, and `given`; without both, wherever they may be."""
    hint, nameless = "", list[int]()
    if not admins and not given:
        # A broker that does not serve Kafka clients may still say why.
        admins, nameless = find_admins(budget, brokers)
        if not admins and not nameless:
            given = [f"{each.rpartition(':')[0]}:{ADMIN_PORT}" for each in addresses(brokers)]
            hint = f"; {_HINT}"
    for node in nameless:
        bundle.miss(f"brokers/{node}/ready.json", f"broker {node} does not tell its admin port: {_HINT}")
    for folder, address in _admin_folders(budget, admins, given).items():
        add_admin_parts(bundle, budget, folder, address, hint)


def _dev_cluster(request: BundleRequest) -> ClusterState | None:
    """Return the dev cluster of this machine if it is the one that is asked for."""
    state = request.folder.load()
    if state is None or request.brokers is None or request.is_dev:
        return state
    return state if set(addresses(request.brokers)) & set(addresses(state.bootstrap)) else None


def _admin_folders(budget: TimeBudget, admins: dict[int, str], given: Sequence[str]) -> dict[str, str]:
    """Return the admin address of each broker, by the folder of its parts."""
    admins = other_admins(budget, [*given, *admins.values()]) | admins
    folders = {f"brokers/{node}": address for node, address in sorted(admins.items())}
    for address in dict.fromkeys(given):
        if address not in admins.values():
            folders[f"brokers/{address.replace(':', '-').strip('[]')}"] = address
    return folders
