"""What Kafka requests tell of a cluster, as parts of a bundle: topics, configurations, groups; and the doctor's words.

Nothing here reads a record, a commit's metadata or what members tell each other.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from typing import Any

from raftka.debug.bundle_file import BundleFile
from raftka.debug.deadlines import TimeBudget
from raftka.debug.errors import MissingPartError
from raftka.debug.secret_mask import SecretMask
from raftka.error_text import reason_of
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka import groups as kafka_groups
from raftka.kafka.client import ClusterInfo, addresses
from raftka.kafka.configs import ConfigValue, Owner
from raftka.kafka.errors import KafkaClientError
from raftka.kafka.quorum import known_members

_REQUEST_SECONDS = 15.0
_GROUPS_SECONDS = 30.0
_DOCTOR_SECONDS = 60.0
# Each is a request of its own.
_GROUPS_MAX = 200
_ADMIN_KEY = "admin.advertised.listener"
_DOCTOR = "from raftka.cli.main import main; main()"


def read_cluster(bundle: BundleFile, budget: TimeBudget, brokers: str) -> ClusterInfo | None:
    """Add brokers, topics and partitions; return them, None if no broker answers."""
    part = "cluster/topics.json"
    try:
        cluster = budget.run(_REQUEST_SECONDS, lambda: kafka_client.read_cluster(brokers))
    except MissingPartError as error:
        bundle.miss(part, str(error))
        return None
    topics = [{"topic": name, "partitions": list(map(asdict, each))} for name, each in cluster.topics.items()]
    nodes = [{"node_id": node, "kafka": address} for node, address in cluster.brokers.items()]
    rows = {"cluster_id": cluster.cluster_id, "controller": cluster.controller, "brokers": nodes, "topics": topics}
    bundle.add_json(part, rows)
    return cluster


def read_configs(
    bundle: BundleFile, budget: TimeBudget, brokers: str, cluster: ClusterInfo, mask: SecretMask
) -> dict[int, str]:
    """Add the configuration of each broker, and let the mask learn it; return admin addresses by node id."""
    found: dict[int, list[ConfigValue]] = {}
    works = [partial(kafka_configs.read_configs, brokers, Owner.BROKER, str(node)) for node in cluster.brokers]
    for node, outcome in zip(cluster.brokers, budget.run_all(_REQUEST_SECONDS, works), strict=True):
        if isinstance(outcome, MissingPartError):
            bundle.miss(f"brokers/{node}/config.json", str(outcome))
        else:
            found[node] = outcome
    # All of them first: a broker may name the secret of another one.
    for values in found.values():
        mask.learn_options({each.key: each.value for each in values})
    for node, values in found.items():
        bundle.add_json(f"brokers/{node}/config.json", list(map(asdict, values)))
    return {
        node: _without_scheme(each.value)
        for node, values in found.items()
        for each in values
        if each.key == _ADMIN_KEY and each.value
    }


def find_admins(budget: TimeBudget, brokers: str) -> tuple[dict[int, str], list[int]]:
    """Return the admin addresses that brokers tell which refuse Metadata, by node id, and who else answers.

    A broker that knows no controller tells who is in the cluster and how it is configured, but only if it is asked
    itself.
    """
    try:
        answering, _ = budget.run(_REQUEST_SECONDS, lambda: known_members(addresses(brokers)))
    except MissingPartError:
        return {}, []
    works = [partial(kafka_configs.read_option, node, address, _ADMIN_KEY) for node, address in answering.items()]
    outcomes = dict(zip(answering, budget.run_all(_REQUEST_SECONDS, works), strict=True))
    found = {node: _without_scheme(each) for node, each in outcomes.items() if isinstance(each, str) and each}
    return found, sorted(set(answering) - set(found))


def _without_scheme(address: str) -> str:
    return address.removeprefix("http://")


def add_groups(bundle: BundleFile, budget: TimeBudget, brokers: str) -> None:
    """Add the consumer groups and their members."""
    part = "cluster/groups.json"
    try:
        listed = budget.run(_GROUPS_SECONDS, lambda: kafka_groups.list_groups(brokers))
        rows = budget.run(_GROUPS_SECONDS, lambda: [_group(brokers, each.name) for each in listed[:_GROUPS_MAX]])
    except MissingPartError as error:
        bundle.miss(part, str(error))
        return
    more = {} if len(listed) <= _GROUPS_MAX else {"cut": f"{len(listed) - _GROUPS_MAX} of {len(listed)} groups"}
    bundle.add_json(part, rows, **more)


def _group(brokers: str, name: str) -> dict[str, Any]:
    try:
        return asdict(kafka_groups.read_group(brokers, name))
    except KafkaClientError as error:
        return {"name": name, "error": reason_of(error)}


def add_doctor(bundle: BundleFile, budget: TimeBudget, brokers: str) -> None:
    """Add what `raftka doctor` finds, as JSON; it runs as a process of its own, which can be ended."""
    part = "doctor.json"
    command = [sys.executable, "-I", "-c", _DOCTOR, "doctor", "--brokers", brokers, "--format", "json"]
    # What this shell says of a broker's configuration may be secret, and is not that of the cluster.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAFTKA_")}
    seconds = min(_DOCTOR_SECONDS, max(1.0, budget.left - 1.0))

    def examine() -> "subprocess.CompletedProcess[bytes]":
        try:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            raise MissingPartError(f"`raftka doctor` did not end within {seconds:.0f} s") from None

    try:
        done = budget.run(seconds + 5.0, examine)
    except MissingPartError as error:
        bundle.miss(part, str(error))
        return
    try:
        bundle.add_json(part, json.loads(done.stdout), exit_code=done.returncode)
    except ValueError:
        words = " ".join(done.stderr.decode(errors="replace").split())
        bundle.miss(part, f"`raftka doctor` ended with exit code {done.returncode}: {words[:500]}")
