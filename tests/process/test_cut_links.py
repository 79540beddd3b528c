"""A leader that its followers cannot hear, or cannot answer, is replaced; what was promised at acks=all stays."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from raftka.admin_client import AdminError, get_json
from raftka.chaos.network_namespace import NetworkNamespace, NetworkNamespaceError, own_network
from tests.process.acked_log import (
    LoadProducer,
    check_no_phantom,
    check_nothing_acked_is_lost,
    read_all,
)
from tests.process.broker_processes import BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

TOPIC = "orders"
# An election timeout, the wait for the longest log, one for a split vote, and how long a busy machine takes.
FAILOVER_SECONDS = 6.0

Cut = Callable[[NetworkNamespace, BrokerProcess, BrokerProcess], None]


@pytest.fixture
def network() -> Iterator[NetworkNamespace]:
    try:
        with own_network() as network:
            yield network
    except NetworkNamespaceError as error:
        pytest.skip(str(error))


def cut_what_it_says(network: NetworkNamespace, leader: BrokerProcess, follower: BrokerProcess) -> None:
    network.cut(leader.host, follower.host)


def cut_what_it_hears(network: NetworkNamespace, leader: BrokerProcess, follower: BrokerProcess) -> None:
    network.cut(follower.host, leader.host)


def cut_both(network: NetworkNamespace, leader: BrokerProcess, follower: BrokerProcess) -> None:
    cut_what_it_says(network, leader, follower)
    cut_what_it_hears(network, leader, follower)


def own_view(broker: BrokerProcess) -> tuple[int, int] | None:
    """Return (leader, term) of the topic as this broker knows them."""
    try:
        status, body = get_json(broker.admin, f"/v1/partitions/{TOPIC}/0", timeout=10)
    except AdminError:
        return None
    return (int(body["leader"]), int(body["term"])) if status == 200 else None


def new_leader(cluster: BrokerCluster, old: int, term: int) -> int:
    """Wait until both others follow the same newer leader and return it."""
    others = [broker for node, broker in cluster.brokers.items() if node != old]

    def agreed() -> int | None:
        views = {own_view(broker) for broker in others}
        view = views.pop()
        return view[0] if not views and view is not None and view[0] not in (-1, old) and view[1] > term else None

    return eventually(lambda: f"a leader other than {old}{cluster.log_tails()}", agreed, 3 * FAILOVER_SECONDS)


@pytest.mark.parametrize("cut", [cut_both, cut_what_it_says, cut_what_it_hears])
def test_a_leader_that_is_cut_off_is_replaced_and_loses_nothing_acked(
    network: NetworkNamespace, make_cluster: ClusterMaker, cut: Cut
):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, TOPIC)
    old = cluster.leader_of(TOPIC, 0)
    _, term = own_view(cluster[old]) or (-1, -1)
    with ExitStack() as stack:
        retrying, once, _ = producers = [
            stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, name, **options))
            for name, options in {
                "retrying": {"acks": "all"},
                "once": {"acks": "all", "retries": 0},
                "relaxed": {"acks": 1, "retries": 0},
            }.items()
        ]
        for producer in producers:
            producer.wait_acked(300)
        log_before = len(cluster[old].log_text())
        begin = time.monotonic()
        for node, follower in cluster.brokers.items():
            if node != old:
                cut(network, cluster[old], follower)
        new_leader(cluster, old, term)
        assert time.monotonic() - begin < FAILOVER_SECONDS
        eventually(
            lambda: f"node {old} steps down{cluster[old].log_tail()}",
            lambda: "steps down" in cluster[old].log_text()[log_before:],
            FAILOVER_SECONDS,
        )
        # The others serve. librdkafka looks for the new leader only where it is connected, maybe just to the old one;
        # so this is a client that knows the others.
        serving = ",".join(broker.kafka for node, broker in cluster.brokers.items() if node != old)
        producers.append(stack.enter_context(LoadProducer(serving, TOPIC, "late", acks="all")))
        producers[-1].wait_acked(300)
        network.heal()
        for producer in producers:
            producer.wait_acked(300)
        logs = [producer.finish() for producer in producers]
        cluster.wait_in_sync(TOPIC, 0)

    records = read_all(cluster.bootstrap, TOPIC)
    for strict in (retrying, once, producers[-1]):
        check_nothing_acked_is_lost(records, strict.log)
    # Twice is allowed: a leader that steps down answers what it could not finish with NOT_LEADER_OR_FOLLOWER, as
    # Kafka does, and librdkafka sends that again even where retries are off.
    check_no_phantom(records, logs)
