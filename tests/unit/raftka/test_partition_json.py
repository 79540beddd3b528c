"""`GET /v1/partitions` at three nodes' admin ports: a row for each partition, offsets from the one who leads it."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from cluster.partition_status import PartitionStatusReader
from raftka.admin_client import request_json
from raftka.broker import partition_json
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.partition_json import PARTITIONS_PER_STEP, render_partitions
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import Starting
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import Cluster, run, until


async def _get(port, query=""):
    return await asyncio.to_thread(request_json, f"127.0.0.1:{port}", f"/v1/partitions{query}", 5.0)


def _in_sync(node, group):
    leader = node.leadership.leader_of(group)
    return 0 if leader is None else len(leader.in_sync)


def _asked(tmp_path, *queries):
    """Return who leads t-0, and what each of three nodes answers to each query."""
    found = []

    async def test():
        cluster, admins, ports = Cluster(tmp_path, 3), [], []
        await cluster.start()
        try:
            await cluster.create_topic("t", replication_factor=3)
            await cluster.create_topic("a")
            leader = int(consensus_of(cluster.leader_of("t")).state.node_id)
            groups = [cluster[1].controller.topics.get(name).group(0) for name in ("a", "t")]
            for node in cluster.nodes.values():
                listener = AdminListener(16)
                statuses = PartitionStatusReader(node.links, node.partitions, node.options.node_id)
                admin = AdminHttp(Starting(node.options.node_id), listener)
                admin.serve(node, statuses, StallWatch(node))
                admins.append(admin)
                await admins[-1].start("127.0.0.1", 0)
                ports.append(listener.port)
                # Leaderships are pushed, and again when an in-sync set changes.
                await until(lambda node=node: [_in_sync(node, each) for each in groups] == [1, 3])
            found.append(leader)
            found.extend([[await _get(port, query) for port in ports] for query in queries])
        finally:
            for admin in admins:
                await admin.stop()
            await cluster.stop()

    run(test)
    return found


def test_every_broker_knows_every_partition_and_its_leader_the_offsets(tmp_path):
    leader, all_of_them, one = _asked(tmp_path, "", "?topic=t")
    for node, (status, body) in enumerate(all_of_them, start=1):
        assert (status, body["node_id"]) == (200, node)
        assert [(row["topic"], row["partition"]) for row in body["partitions"]] == [("a", 0), ("t", 0)]
        row = body["partitions"][1]
        assert (row["leader"], sorted(row["replicas"]), row["in_sync"]) == (leader, [1, 2, 3], [1, 2, 3])
        assert (row["status"], row["min_isr"] > 0, row["term"] > 0) == ("ok", True, True)
        assert (row["leo"], row["hw"]) == ((0, 0) if node == leader else (None, None))
        assert one[node - 1][1]["partitions"] == [row]


def test_a_wrong_question_is_answered_with_what_is_wrong(tmp_path):
    queries = {
        "?topic=u": (404, "no topic 'u'"),
        "?topics=t": (400, "unknown parameter 'topics': there is only topic"),
        "?topic=t&topic=a": (400, "topic=t,a: must be one name"),
    }
    _, *answers = _asked(tmp_path, *queries)
    for (status, words), (answer, *_) in zip(queries.values(), answers, strict=True):
        assert answer == (status, {"error": words})


@pytest.mark.parametrize("count", [0, 1, 100, 101, 1_050])
def test_no_step_of_the_loop_encodes_more_than_a_hundred_rows(monkeypatch, count):
    encoded = largest = 0

    def row(_node, topic, number):
        nonlocal encoded
        encoded += 1
        return {"topic": topic.name, "partition": number}

    monkeypatch.setattr(partition_json, "_row", row)
    node = SimpleNamespace(options=SimpleNamespace(node_id=1))
    topics = [
        SimpleNamespace(name="t", replicas=[()] * (count // 2)),
        SimpleNamespace(name="u", replicas=[()] * (count - count // 2)),
    ]

    async def test():
        nonlocal largest
        rendering = asyncio.ensure_future(render_partitions(node, topics))
        seen = 0
        while not rendering.done():
            await asyncio.sleep(0)
            largest, seen = max(largest, encoded - seen), encoded
        return rendering.result()

    body = json.loads(asyncio.run(test()))
    assert len(body["partitions"]) == count
    assert largest == min(count, PARTITIONS_PER_STEP)
