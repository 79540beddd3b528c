"""Kafka's tools where the cluster uses `raftka.membership` at level 1: features, options of brokers, raft0's voters."""

import json
import re
import sys

from tests.clients.kafka_tools import MARKS, refused, run
from tests.clients.reassigning import described_configs
from tests.clients.referee import Referee
from tests.process.broker_processes import eventually

pytestmark = MARKS

FEATURE = "raftka.membership"


def _feature(cluster: Referee) -> dict[str, str] | None:
    """Return what kafka-features tells of the feature; None if it does not name it."""
    rows = [dict(re.findall(r"(\w+): (\S+)", line)) for line in run(cluster, "features", "describe").splitlines()]
    return next((row for row in rows if row.get("Feature") == FEATURE), None)


def _upgrade(level: int, *more: str) -> tuple[str, ...]:
    return ("features", "upgrade", "--feature", f"{FEATURE}={level}", *more)


def test_a_feature_is_raised_once_all_brokers_have_it_and_a_dry_run_changes_nothing(raised_tools: Referee) -> None:
    cluster = raised_tools.cluster
    # Brokers are upgraded one by one.
    for node in (1, 2, 3):
        assert cluster[node].terminate() == 0
        cluster[node].python = sys.executable
        cluster.restart([node])
    told = {"Feature": FEATURE, "SupportedMinVersion": "0", "SupportedMaxVersion": "1"}
    found = _feature(raised_tools)
    assert found is not None
    assert (told.items() <= found.items(), found["FinalizedVersionLevel"]) == (True, "0")
    run(raised_tools, *_upgrade(1, "--dry-run"))
    assert _feature(raised_tools) == found
    assert f"{FEATURE} cannot be at level 2: broker 1 has 1" in refused(raised_tools, *_upgrade(2))
    run(raised_tools, *_upgrade(1))
    raised = _feature(raised_tools)
    assert raised is not None
    assert (told.items() <= raised.items(), raised["FinalizedVersionLevel"]) == (True, "1")
    lower = ("features", "downgrade", "--feature", f"{FEATURE}=0")
    assert "a level is never lowered" in refused(raised_tools, *lower)
    assert _feature(raised_tools) == raised


def test_options_are_set_on_one_broker_and_on_all_and_described_with_their_sources(living_tools: Referee) -> None:
    everybody = ("--entity-type", "brokers", "--entity-default")
    second = ("--entity-type", "brokers", "--entity-name", "2")
    key = "log.roll.ms"
    assert described_configs(living_tools, "--entity-type", "brokers", "--entity-name", "2") == {"2": {}}
    said = run(living_tools, "configs", *everybody, "--alter", "--add-config", f"{key}=7000")
    assert "Completed updating default config for brokers in the cluster." in said
    said = run(living_tools, "configs", *second, "--alter", "--add-config", f"{key}=5000,log.retention.ms=60000")
    assert "Completed updating config for broker 2." in said
    default = f"DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=7000"
    assert described_configs(living_tools, *everybody) == {"": {key: ("7000", default)}}
    of_all = described_configs(living_tools, "--entity-type", "brokers")
    assert of_all.keys() == {"", *map(str, living_tools.cluster.brokers)}
    own, of_others = f"DYNAMIC_BROKER_CONFIG:{key}=5000", f"DEFAULT_CONFIG:{key}=604800000"
    assert of_all["2"][key] == ("5000", f"{own}, {default}, {of_others}")
    assert of_all["2"].keys() == {key, "log.retention.ms"}
    # Of a broker it tells what is set on it alone; `--all` has the rest.
    assert of_all["1"] == {}
    # What a broker has at its start is told as well.
    shown = run(living_tools, "configs", "--entity-type", "brokers", "--entity-name", "1", "--describe", "--all")
    assert f"  {key}=7000 sensitive=false synonyms={{{default}, {of_others}}}" in shown.splitlines()
    assert re.search(r"^  kafka\.port=\d+ sensitive=false synonyms={STATIC_BROKER_CONFIG:", shown, re.MULTILINE)

    run(living_tools, "configs", *second, "--alter", "--delete-config", f"{key},log.retention.ms")
    run(living_tools, "configs", *everybody, "--alter", "--delete-config", key)
    assert all(not configs for configs in described_configs(living_tools, "--entity-type", "brokers").values())


def test_options_that_cannot_be_set_are_refused_with_the_reason(living_tools: Referee) -> None:
    one, everybody = ("--entity-name", "1"), ("--entity-default",)
    for entity, change, words in (
        (one, "raft.election.timeout.ms=5000", "raft.election.timeout.ms is read when a broker starts"),
        (everybody, "raft.election.timeout.ms=5000", "raft.election.timeout.ms is read when a broker starts"),
        (one, "log.retention.msec=5000", "did you mean log.retention.ms?"),
        (everybody, "log.roll.ms=1", "InvalidConfigurationException"),
        (one, "group.min.session.timeout.ms=9000000", "InvalidConfigurationException"),
    ):
        said = refused(living_tools, "configs", "--entity-type", "brokers", *entity, "--alter", "--add-config", change)
        assert words in said
    unknown = ("--entity-type", "brokers", "--entity-name", "9")
    said = refused(living_tools, "configs", *unknown, "--alter", "--add-config", "log.roll.ms=7000")
    assert "9" in said
    assert all(not configs for configs in described_configs(living_tools, "--entity-type", "brokers").values())


def test_five_of_seven_brokers_vote_in_the_quorum_and_the_others_observe(living_tools: Referee) -> None:
    def quorum() -> dict[str, str]:
        status = run(living_tools, "metadata-quorum", "describe", "--status")
        return dict(line.split(":", 1) for line in status.splitlines() if ":" in line)

    def nodes(told: str) -> set[int]:
        return {int(each["id"]) for each in json.loads(told)}

    # All founders vote at first.
    found = eventually("five vote", lambda: (told := quorum()) and len(nodes(told["CurrentVoters"])) == 5 and told)
    voters, observers = nodes(found["CurrentVoters"]), nodes(found["CurrentObservers"])
    assert (voters | observers, len(voters & observers)) == (set(living_tools.cluster.brokers), 0)
    assert int(found["LeaderId"]) in voters
    assert int(found["LeaderEpoch"]) > 0
    assert int(found["HighWatermark"]) > 0

    def rows() -> dict[int, list[str]]:
        lines = run(living_tools, "metadata-quorum", "describe", "--replication").splitlines()[1:]
        return {int(line.split()[0]): line.split() for line in lines}

    told = rows()
    kinds = {node: row[-1] for node, row in told.items()}
    assert {node for node, kind in kinds.items() if kind == "Observer"} == observers
    assert {node for node, kind in kinds.items() if kind == "Leader"} == {int(found["LeaderId"])}
    assert {node for node, kind in kinds.items() if kind == "Follower"} == voters - {int(found["LeaderId"])}
    # Observers get what is written: each row is node, directory, end of its log, lag.
    ends = {node: int(row[2]) for node, row in told.items()}
    assert min(ends.values()) > 0
    eventually("nobody lags", lambda: all(int(row[3]) == 0 for row in rows().values()))
