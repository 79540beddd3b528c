"""A bound that is nearly reached, or has refused a request, is named in metrics, at the admin port and by the doctor."""

from dataclasses import replace

import pytest

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.partition_status import PartitionStatusReader
from cluster.state_bounds import StateOptions
from kafka_api.protocol.error_codes import ErrorCode
from raftka.admin_client import get_json
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.exposition import Exposition, Format
from raftka.broker.metrics import NodeCollector
from raftka.broker.scrapes import render
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import Starting
from raftka.cli.admin_picture import read_fills
from raftka.health.broker_rules import check_bounds
from raftka.health.findings import Level
from raftka.health.picture import BrokerPicture, Picture
from raftka.monitoring.catalogue import Path
from runtime.workers import Pool
from tests.engine import consensus_of
from tests.unit.cluster.cluster_nodes import FAST, run, until
from tests.unit.kafka_api.groups.group_calls import QUICK, Groups
from tests.unit.kafka_api.wire_client import broker_in

_ONE_PARTITION = replace(QUICK, topic_partitions=1)
_TABLE = f"the group table of {OFFSETS_TOPIC}-0"


def _told(tmp_path, metadata, **of_node):
    """Commit metadata until a commit is refused, or thrice; return findings, fills and metrics."""

    async def test():
        async with broker_in(tmp_path, groups=_ONE_PARTITION, **of_node) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=3)
            groups = Groups(client)
            await groups.wait_found()
            for number in range(3):
                if await groups.commit(1, partition=number, metadata=metadata) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE:
                    break
            log = consensus_of(broker.partition(OFFSETS_TOPIC))
            if "raft" in of_node:
                await until(lambda: log.snapshot_refusal is not None)
            listener = AdminListener(16)
            node = broker.node
            admin = AdminHttp(Starting(1), listener)
            admin.serve(
                node, PartitionStatusReader(node.links, node.partitions, node.options.node_id), StallWatch(node)
            )
            await admin.start("127.0.0.1", 0)
            try:
                address = f"127.0.0.1:{listener.port}"
                run_there = node.env.workers.run
                read = await run_there(Pool.READ, lambda: read_fills(address))
                findings = list(check_bounds(Picture(brokers=(BrokerPicture(1, fills=read),))))
                _, fills = await run_there(Pool.READ, lambda: get_json(address, "/v1/bounds"))
            finally:
                await admin.stop()
            text = (await render(Path.BROKER, [NodeCollector(node)], Exposition(Format.TEXT))).decode()
            outcome.extend((findings, fills, text))

    outcome = []
    run(test)
    return outcome


def test_a_bound_with_room_is_no_finding(tmp_path):
    findings, fills, metrics = _told(tmp_path, "x")
    assert findings == []
    assert not any(fill["refused"] for fill in fills)
    assert {fill["name"] for fill in fills} == {
        *("the tables of raft0", _TABLE, "batches of producers in all groups", "files of segments in use"),
        *("append requests for the followers here", "snapshots on their way to the followers here"),
    }
    assert f'raftka_bound_max{{unit="bytes",what="{_TABLE}"}} 4.194304e+07' in metrics


def test_a_bound_that_is_nearly_reached_is_a_warning_with_its_cure(tmp_path):
    findings, fills, _ = _told(tmp_path, "x" * 300, state=StateOptions(groups_bytes_max=1100))
    (finding,) = findings
    assert finding.level is Level.WARNING
    assert finding.words == f"{_TABLE} has {fills[0]['used']} of 1100 bytes"
    assert finding.cure.startswith("delete groups")


def test_a_bound_that_has_refused_requests_is_a_problem(tmp_path):
    findings, _, metrics = _told(tmp_path, "ü" * 300, state=StateOptions(groups_bytes_max=900))
    (finding,) = findings
    assert finding.level is Level.PROBLEM
    assert finding.words.endswith("of 900 bytes, and has refused 1 request since its start")
    assert f'raftka_bound_refusals_total{{unit="bytes",what="{_TABLE}"}} 1.0' in metrics


def test_a_state_that_is_too_large_for_a_snapshot_is_a_problem(tmp_path):
    findings, _, metrics = _told(tmp_path, "x" * 300, raft=replace(FAST, snapshot_entries=2, state_bytes_max=500))
    (finding,) = [each for each in findings if each.words.startswith(f"the snapshot of {OFFSETS_TOPIC}-0")]
    assert finding.level is Level.PROBLEM
    assert "a follower that was away for long stays behind" in finding.cure
    assert "raftka_raft_snapshots_refused_total" in metrics


@pytest.mark.parametrize("address", ["127.0.0.1:1"])
def test_a_broker_that_does_not_answer_is_said_elsewhere(address):
    assert read_fills(address) == ()
