"""Leaders change on purpose under load: by command, and because their broker is stopped. Nothing waits for a time-out."""

import json
from contextlib import ExitStack

import pytest

from tests.process.acked_log import (
    LoadProducer,
    WatermarkWatcher,
    check_no_phantom,
    check_nothing_acked_is_lost,
    read_all,
)
from tests.process.broker_processes import ClusterMaker, eventually
from tests.process.command_line import raftka
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

TOPIC = "orders"
# Far above what the machine is slow by, far below what is measured: an election would wait 10 to 15 s.
ELECTION_SECONDS = 10.0
PAUSE_SECONDS = 5.0


def _transfer(bootstrap: str, *options: str) -> dict:
    done = raftka("partition", "transfer-leadership", TOPIC, "0", "--brokers", bootstrap, "-f", "json", *options)
    return json.loads(done.stdout)


def test_a_leader_is_moved_by_command_and_stopped_under_load(make_cluster: ClusterMaker):
    cluster = make_cluster(3, **{"raft.election.timeout.ms": int(ELECTION_SECONDS * 1000)})
    cluster.start()
    create_topic(cluster, TOPIC)
    pauses = []
    with ExitStack() as stack:
        watcher = stack.enter_context(WatermarkWatcher(cluster.bootstrap, TOPIC))
        producer = stack.enter_context(LoadProducer(cluster.bootstrap, TOPIC, "retrying", acks="all"))
        producer.wait_acked(300)
        for target in [node for node in (1, 2, 3) if node != cluster.leader_of(TOPIC, 0)]:
            producer.log.longest_pause = 0.0
            assert _transfer(cluster.bootstrap, "--target", str(target))["leader"] == target
            producer.wait_acked(100)
            pauses.append(producer.log.longest_pause)
            assert cluster.leader_of(TOPIC, 0) == target
        for _ in range(2):
            victim = cluster.leader_of(TOPIC, 0)
            producer.log.longest_pause = 0.0
            assert cluster[victim].terminate() == 0
            cluster.leader_of(TOPIC, 0, other_than=victim)
            producer.wait_acked(100)
            pauses.append(producer.log.longest_pause)
            watcher.wait_answer()
            cluster.restart([victim])
            cluster.wait_caught_up(TOPIC, 0)
        log = producer.finish()
    print("seconds between two acknowledgements at most:", [round(pause, 3) for pause in pauses])
    assert max(pauses) < PAUSE_SECONDS
    records = read_all(cluster.bootstrap, TOPIC)
    check_nothing_acked_is_lost(records, log)
    check_no_phantom(records, [log])
    assert watcher.steps_back == []


def test_what_cannot_be_transferred_is_refused_in_one_line(make_cluster: ClusterMaker):
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, TOPIC)
    leader = cluster.leader_of(TOPIC, 0)
    command = ("partition", "transfer-leadership")
    for arguments, words in (
        ((TOPIC, "0", "--target", "9"), "node 9 is not a voter; the voters are 1, 2, 3"),
        ((TOPIC, "7"), "topic orders has partition 0 only, not 7"),
        (("nothing", "0"), "no topic 'nothing'"),
    ):
        done = raftka(*command, *arguments, "--brokers", cluster.bootstrap, code=1)
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
    # Who got no answer asks again: nothing is left to do, and nothing is wrong.
    done = raftka(*command, TOPIC, "0", "--target", str(leader), "--brokers", cluster.bootstrap)
    assert done.stdout == f"{TOPIC}-0: node {leader} leads already\n"
    other = next(node for node in (1, 2, 3) if node != leader)
    cluster[other].kill()
    eventually(
        "the link is known to be down",
        lambda: (
            f"link from node {leader} to node {other} is down"
            in raftka(*command, TOPIC, "0", "--target", str(other), "--brokers", cluster.bootstrap, code=1).stderr
        ),
    )
