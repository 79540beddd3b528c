"""Lines of a replica have the name of its partition; the group's id is in one line, at each opening."""

import re

import pytest

from tests.process.broker_processes import ClusterMaker
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process


def test_lines_of_a_replica_name_its_partition_and_the_id_once(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3)
    cluster.start()
    create_topic(cluster, "orders", 2)
    leader = cluster[cluster.leader_of("orders", 1)]
    cluster.wait_in_sync("orders", 1)
    [group] = re.findall(r"partition orders-1 is group (\S+)\n", leader.log_text())
    assert re.search(r" INFO    raft \[orders-1 n\d t\d+ L\] elected by nodes ", leader.log_text())
    assert re.search(r" INFO    storage \[orders-1 n\d t\d+ L\] segment \S+ begins\n", leader.log_text())
    assert re.search(r" INFO    cluster \[orders-1 n\d t\d+\] node \d leads\n", leader.log_text())
    assert re.search(r" INFO    raft \[raft0 n\d t\d+ [FL]\] starts with log ", leader.log_text())
    assert leader.terminate() == 0
    assert leader.log_text().count(group) == 1, "only where it was opened"
    cluster.restart([leader.node_id])
    cluster.wait_in_sync("orders", 1)
    assert leader.log_text().count(group) == 2, "once for each life"
