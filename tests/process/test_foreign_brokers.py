"""Brokers that are not what they are taken for: of another cluster, or with a configuration that cannot be meant."""

from typing import Any

import pytest

from raftka.admin_client import get_json, not_ready_reason
from tests.process.acked_log import LoadProducer, check_no_phantom, check_nothing_acked_is_lost, read_all
from tests.process.broker_processes import ADMIN_PORT, KAFKA_PORT, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic, topics_at

pytestmark = pytest.mark.process

REFUSED = "belongs to cluster"


def test_a_broker_of_another_cluster_is_refused_and_named_on_both_sides(make_cluster: ClusterMaker):
    home, abroad = make_cluster(3), make_cluster(3)
    # What an operator does who copies configurations: the same secret, the same node ids.
    abroad.secret_path.write_bytes(home.secret_path.read_bytes())
    for cluster, topic in ((home, "orders"), (abroad, "foreign")):
        cluster.start()
        create_topic(cluster, topic)
    for broker in abroad.brokers.values():
        assert broker.terminate() == 0
    stranger = home[3]
    assert stranger.terminate() == 0
    own_directory, stranger.config["data.dir"] = stranger.config["data.dir"], str(abroad[3].data_dir)
    seen = len(stranger.log_text())
    with LoadProducer(home.bootstrap, "orders", "order", acks="all") as producer:
        stranger.start()
        eventually("the stranger is told", lambda: REFUSED in stranger.log_text()[seen:])
        eventually("node 1 names it", lambda: REFUSED in home[1].log_text())
        producer.wait_acked(200)
        log = producer.finish()
    why = "brokers 1, 2 and this broker (3) belong to different clusters"
    told = eventually("it says why", lambda: _not_ready(stranger.admin, why))
    assert "data.dir" in told["cure"]
    _, brokers = get_json(home[1].admin, "/v1/brokers")
    assert {each["node_id"]: bool(each["refused"]) for each in brokers} == {1: False, 2: False, 3: True}
    assert not_ready_reason(home[1].admin) is None
    assert "foreign" not in topics_at(home[1].kafka)
    assert home[1].log_text().count(REFUSED) < 10, "said once, not with every try"
    assert stranger.terminate() == 0

    stranger.config["data.dir"] = own_directory
    home.restart([3])
    home.wait_in_sync("orders", 0)
    records = read_all(home.bootstrap, "orders")
    check_nothing_acked_is_lost(records, log)
    check_no_phantom(records, [log])
    # Nor has its visit changed anything where it belongs.
    abroad.start()
    assert "foreign" in topics_at(abroad[3].kafka)


def _not_ready(admin: str, words: str) -> dict[str, Any] | None:
    """Return why a broker is not ready if these words are in it."""
    status, told = get_json(admin, "/v1/status/ready")
    assert status == 503
    return dict(told) if words in told["reason"] else None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kafka.port": "many"}, "kafka.port = 'many': must be an integer"),
        ({"insecure": "maybe"}, "insecure = 'maybe': must be true or false"),
        ({"seeds": [1]}, "must be a list of strings"),
        ({"kafka.prt": 1}, "unknown option kafka.prt; did you mean kafka.port?"),
        ({"rpc.port": 65_536}, "rpc.port = 65536: must be from 0 to 65535"),
        ({"raft.heartbeat.interval.ms": 0}, "raft.heartbeat.interval.ms = 0: must be from"),
        ({"raft.heartbeat.interval.ms": 2_000, "raft.election.timeout.ms": 1_500}, "must be below raft.election"),
        ({"admin.port": KAFKA_PORT}, f"kafka.port and admin.port are both {KAFKA_PORT}"),
        ({"rpc.port": ADMIN_PORT}, f"are both {ADMIN_PORT}"),
        ({"kafka.address": "0.0.0.0"}, "kafka.address = 0.0.0.0 is no address to connect to"),
        ({"admin.address": "0.0.0.0"}, "admin.address = 0.0.0.0 is reachable from elsewhere"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused_in_one_line(
    make_cluster: ClusterMaker, changes: dict[str, Any], words: str
):
    broker = make_cluster(1)[1]
    broker.config.update(changes)
    broker.start()
    assert broker.wait_exit() == 78
    lines = broker.log_text().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("raftka: ")
    assert words in lines[0]
    assert not broker.data_dir.exists(), "nothing was made before the configuration was right"
