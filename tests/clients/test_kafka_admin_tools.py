"""Kafka's tools for who looks after a cluster: what is served, and in which words the rest is refused."""

import json
import re
from pathlib import Path

from kafka_api.handlers.registry import ADVERTISED
from kafka_api.protocol.schema.message_schema import Direction, schema_of
from model.features import MEMBERSHIP, TRANSACTION_VERSION
from tests.clients.kafka_tools import MARKS, refused, run, tried
from tests.clients.referee import Referee
from tests.process.broker_processes import eventually

pytestmark = MARKS


def test_the_cluster_and_what_it_speaks_are_described(tools_referee: Referee):
    assert re.search(r"Cluster ID: \S+", run(tools_referee, "cluster", "cluster-id"))
    listed = run(tools_referee, "cluster", "list-endpoints").splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["1", "2", "3"]
    assert all("unfenced" in line for line in listed)

    spoken = run(tools_referee, "broker-api-versions")
    each = [f"{schema_of(key, Direction.REQUEST).name.removesuffix('Request')}({key}): " for key in ADVERTISED]
    for name in each:
        lines = [line for line in spoken.splitlines() if line.strip().startswith(name)]
        assert len(lines) == len(tools_referee.cluster.running), name
        assert all("usable: " in line for line in lines), lines


def test_the_quorum_is_described(tools_referee: Referee):
    status = run(tools_referee, "metadata-quorum", "describe", "--status")
    found = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    assert found["LeaderId"].strip() in {"1", "2", "3"}
    assert {voter["id"] for voter in json.loads(found["CurrentVoters"])} == {1, 2, 3}
    assert json.loads(found["CurrentObservers"]) == []
    rows = run(tools_referee, "metadata-quorum", "describe", "--replication").splitlines()[1:]
    assert sorted(row.split()[0] for row in rows) == ["1", "2", "3"]
    assert sorted(row.split()[-1] for row in rows) == ["Follower", "Follower", "Leader"]


def test_log_directories_are_described(tools_referee: Referee):
    topic = "tools.log-dirs"
    tools_referee.create_topic(topic, partitions=2)
    tools_referee.fill(topic, ["x" * 100] * 20, 2)

    def sizes(*brokers: str) -> dict[int, dict[str, int]]:
        which = ("--broker-list", ",".join(brokers)) if brokers else ()
        shown = run(tools_referee, "log-dirs", "--describe", "--topic-list", topic, *which)
        told = json.loads(shown.splitlines()[-1])["brokers"]
        assert all(directory["error"] is None for broker in told for directory in broker["logDirs"])
        return {
            broker["broker"]: {
                each["partition"]: each["size"] for log in broker["logDirs"] for each in log["partitions"]
            }
            for broker in told
        }

    found = sizes()
    assert found.keys() == {1, 2, 3}
    assert all(each.keys() == {f"{topic}-0", f"{topic}-1"} for each in found.values())
    assert max(size for each in found.values() for size in each.values()) > 1_000
    assert sizes("2").keys() == {2}


def test_preferred_leaders_are_elected(tools_referee: Referee):
    topic = "tools.elections"
    tools_referee.create_topic(topic)
    described = run(tools_referee, "topics", "--describe", "--topic", topic)
    replicas = re.search(r"Replicas: (\d),", described)
    assert replicas is not None
    preferred = int(replicas[1])
    one = ("--topic", topic, "--partition", "0")
    victim = tools_referee.leader_of(topic)
    killing = tools_referee.killing(victim, lambda: tools_referee.cluster.leader_of(topic, 0, other_than=victim))
    killing.finish()
    tools_referee.leader_of(topic)

    def is_elected() -> bool:
        # Until the preferred one has caught up, it is refused.
        said = tried(tools_referee, "leader-election", "--election-type", "preferred", *one)
        return "Valid replica already elected" in said or "Successfully completed leader election" in said

    eventually("the preferred leader", is_elected)
    eventually("it in office", lambda: tools_referee.leader_of(topic) == preferred)
    assert "already elected" in run(tools_referee, "leader-election", "--election-type", "preferred", *one)
    run(tools_referee, "leader-election", "--election-type", "preferred", "--all-topic-partitions")
    said = run(tools_referee, "leader-election", "--election-type", "unclean", *one)
    assert "Valid replica already elected" in said
    unknown = ("--election-type", "preferred", "--topic", "tools.nowhere", "--partition", "0")
    assert "UnknownTopicOrPartitionException" in refused(tools_referee, "leader-election", *unknown)


def test_producers_are_described_and_transactions_listed(tools_referee: Referee):
    topic = "tools.producers"
    tools_referee.create_topic(topic)
    idempotent = ("--command-property", "enable.idempotence=true", "--command-property", "acks=all")
    run(tools_referee, "console-producer", "--topic", topic, *idempotent, stdin="one\ntwo\nthree\n")
    where = ("--topic", topic, "--partition", "0")
    head, *rows = run(tools_referee, "transactions", "describe-producers", *where).splitlines()
    assert head.split()[:4] == ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence"]
    [row] = rows
    assert (row.split()[1], row.split()[3], row.split()[5]) == ("0", "2", "None")

    # Whoever writes to this cluster besides has ids of its own.
    assert "tools.nobody" not in run(tools_referee, "transactions", "list")
    [_] = run(tools_referee, "transactions", "find-hanging", *where).splitlines()  # Its headline only.
    said = refused(tools_referee, "transactions", "describe", "--transactional-id", "tools.nobody")
    assert "could not be found" in said
    said = refused(tools_referee, "transactions", "abort", *where, "--start-offset", "0")
    assert "Could not find any open transactions starting at offset 0" in said
    run(tools_referee, "transactions", "forceTerminateTransaction", "--transactionalId", "tools.nobody")
    assert "tools.nobody" in run(tools_referee, "transactions", "list")


def test_acls_are_refused_for_want_of_an_authorizer(tools_referee: Referee):
    acl = ("--allow-principal", "User:a", "--operation", "Read", "--topic", "tools.acls")
    for arguments in (("--list",), ("--add", *acl), ("--remove", "--force", *acl)):
        said = refused(tools_referee, "acls", *arguments)
        assert "SecurityDisabledException: this broker has no authorizer" in said


def test_there_are_no_quotas_and_no_users(tools_referee: Referee):
    user, client = ("--entity-type", "users", "--entity-name", "a"), ("--entity-type", "clients", "--entity-default")
    for entity in (("--entity-type", "users"), user, ("--entity-type", "clients"), ("--entity-type", "ips")):
        assert run(tools_referee, "configs", *entity, "--describe") == ""
    for entity, change in ((user, "producer_byte_rate=1024"), (client, "consumer_byte_rate=1024")):
        said = refused(tools_referee, "configs", *entity, "--alter", "--add-config", change)
        assert "UnsupportedVersionException: this broker has no client quotas" in said
    said = refused(tools_referee, "configs", *user, "--alter", "--add-config", "SCRAM-SHA-256=[password=x]")
    assert "UnsupportedSaslMechanismException: this broker has no SASL" in said
    said = refused(tools_referee, "configs", *user, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "ResourceNotFoundException: the user has no SCRAM credentials" in said


def test_what_has_no_configuration_shows_none_and_takes_none(tools_referee: Referee):
    topic = group = "tools.no-configs"
    tools_referee.create_topic(topic)
    committed = ("--group", group, "--topic", topic, "--reset-offsets", "--to-earliest", "--execute")
    run(tools_referee, "consumer-groups", *committed)
    assert run(tools_referee, "client-metrics", "--list").strip() == ""
    assert run(tools_referee, "client-metrics", "--describe") == ""
    assert run(tools_referee, "configs", "--entity-type", "client-metrics", "--describe") == ""
    shown = run(tools_referee, "configs", "--entity-type", "groups", "--describe").splitlines()
    assert f"Dynamic configs for group {group} are:" in shown
    assert all(line.startswith("Dynamic configs for group ") for line in shown), shown
    said = refused(tools_referee, "client-metrics", "--alter", "--name", "x", "--interval", "1000", "--metrics", "a")
    assert "only topics (2) and brokers (4) have configurations" in said
    named = ("--entity-type", "groups", "--entity-name", group, "--alter", "--add-config")
    said = refused(tools_referee, "configs", *named, "consumer.session.timeout.ms=50000")
    assert "only topics (2) and brokers (4) have configurations" in said


def test_replicas_are_planned_for(tools_referee: Referee, tmp_path: Path):
    topic = "tools.moves"
    tools_referee.create_topic(topic)
    assert "No partition reassignments found." in run(tools_referee, "reassign-partitions", "--list")
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    generate = ("--topics-to-move-json-file", str(wanted), "--broker-list", "1,2,3", "--generate")
    _, now, _, _, proposed = run(tools_referee, "reassign-partitions", *generate).splitlines()
    [at] = json.loads(now)["partitions"]
    [to] = json.loads(proposed)["partitions"]
    assert (at["topic"], sorted(at["replicas"]), sorted(to["replicas"])) == (topic, [1, 2, 3], [1, 2, 3])


def test_whoever_wants_to_authenticate_is_told_that_nobody_can(tools_referee: Referee, tmp_path: Path):
    config = tmp_path / "sasl.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="a" password="b";\n'
    )
    said = refused(tools_referee, "topics", "--list", "--command-config", str(config))
    assert "Unexpected handshake request with client mechanism PLAIN, enabled mechanisms are []" in said


def test_features_are_described_and_none_is_raised_that_brokers_lack(tools_referee: Referee):
    described = run(tools_referee, "features", "describe").splitlines()
    ranges = ["SupportedMinVersion:", "0", "SupportedMaxVersion:"]
    assert [each.split()[:6] for each in described] == [
        ["Feature:", MEMBERSHIP, *ranges, "1"],
        ["Feature:", TRANSACTION_VERSION, *ranges, "2"],
    ]
    said = refused(tools_referee, "features", "upgrade", "--feature", "transaction.version=3")
    assert "transaction.version cannot be at level 3: broker 1 has 2, broker 2 has 2, broker 3 has 2" in said
    said = refused(tools_referee, "features", "downgrade", "--feature", "transaction.version=3")
    assert "transaction.version is at level 2, and is not lowered to level 3" in said


def test_what_is_not_advertised_is_not_sent(tools_referee: Referee, tmp_path: Path):
    nothing = tmp_path / "nothing.properties"
    nothing.touch()
    described = ("--describe", "--command-config", str(nothing))
    assert "does not support the broker unregistration" in run(tools_referee, "cluster", "unregister", "--id", "9")
    assert run(tools_referee, "share-groups", "--list") == ""
    assert "does not support DESCRIBE_DELEGATION_TOKEN" in tried(tools_referee, "delegation-tokens", *described)
