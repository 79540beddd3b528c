"""kafka-reassign-partitions with a plan, and what kafka-topics and kafka-configs tell of what has come of it."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.clients.kafka_tools import refused, run
from tests.clients.referee import Referee


class Reassigning:
    """kafka-reassign-partitions with a plan in a file.

    Args:
        cluster: Where partitions are moved.
        folder: Where the plan is.
    """

    def __init__(self, cluster: Referee, folder: Path) -> None:
        self.cluster = cluster
        self.plan = folder / "plan.json"

    def wants(self, targets: dict[str, list[int]]) -> None:
        """Write the plan: where partition 0 of each topic is to be."""
        moves = [{"topic": topic, "partition": 0, "replicas": nodes} for topic, nodes in targets.items()]
        self.plan.write_text(json.dumps({"version": 1, "partitions": moves}))

    def __call__(self, option: str, *more: str) -> str:
        return run(self.cluster, "reassign-partitions", "--reassignment-json-file", str(self.plan), option, *more)

    def refused(self, option: str, *more: str) -> str:
        return refused(self.cluster, "reassign-partitions", "--reassignment-json-file", str(self.plan), option, *more)

    def proposed(self, *topics: str, brokers: list[int]) -> dict[str, list[int]]:
        """Return what `--generate` proposes, by topic."""
        file = self.plan.with_name("topics.json")
        file.write_text(json.dumps({"version": 1, "topics": [{"topic": topic} for topic in topics]}))
        among = ",".join(map(str, brokers))
        words = ["--topics-to-move-json-file", str(file), "--broker-list", among, "--generate"]
        text = run(self.cluster, "reassign-partitions", *words)
        plan = json.loads(text.split("Proposed partition reassignment configuration")[1])
        return {each["topic"]: each["replicas"] for each in plan["partitions"]}

    def listed(self) -> str:
        return run(self.cluster, "reassign-partitions", "--list")

    def throttles(self) -> dict[str, str]:
        """Return the throttled rates of all brokers and the lists of all topics, by `broker or topic: key`."""
        found = {}
        for kind in ("brokers", "topics"):
            for name, configs in described_configs(self.cluster, "--entity-type", kind).items():
                found |= {f"{name}: {key}": told[0] for key, told in configs.items() if ".throttled." in key}
        return found


def described_configs(cluster: Referee, *entities: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Return of each entity that kafka-configs describes the keys with value and synonyms; "" are all brokers."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    name = ""
    for line in run(cluster, "configs", "--describe", *entities).splitlines():
        if line.endswith(" are:"):
            # `Dynamic configs for broker 1 are:`, `Default configs for brokers in the cluster are:`
            name = "" if line.startswith("Default") else line.split()[-2]
            found[name] = {}
            continue
        key, _, rest = line.strip().partition("=")
        value, _, synonyms = rest.partition(" sensitive=")
        found[name][key] = value, synonyms.partition("synonyms=")[2].strip("{}")
    return found


def described_partitions(cluster: Referee, topic: str, *more: str) -> list[dict[str, str]]:
    """Return what kafka-topics tells of each partition of a topic, by the words in front of it."""
    lines = run(cluster, "topics", "--describe", "--topic", topic, *more).splitlines()
    rows = [[each.partition(": ") for each in line.strip().split("\t")] for line in lines if "\tLeader: " in line]
    return [{name: value.strip() for name, _, value in row} for row in rows]


def replicas_of(cluster: Referee, topic: str) -> list[int]:
    (row,) = described_partitions(cluster, topic)
    return [int(node) for node in row["Replicas"].split(",")]


def create_at(cluster: Referee, topic: str, replicas: Sequence[int]) -> None:
    """Create a topic with one partition on these brokers."""
    at = ":".join(map(str, replicas))
    run(cluster, "topics", "--create", "--topic", topic, "--replica-assignment", at)
