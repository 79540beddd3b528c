"""Leaders of data that change: what readers at read_committed see at a replica that followed while the log start moved."""

import pytest
from coordinating_brokers import with_brokers

from kafka_api.protocol.error_codes import ErrorCode
from tests.unit.cluster.cluster_nodes import until
from tests.unit.kafka_api.test_stable_offset_reads import delete_up_to, open_in, rows, shown

NONE = ErrorCode.NONE


def replicas_of(brokers):
    group = brokers.cluster.leader_of("t").group
    return [node.partitions.get(group) for node in brokers.cluster.nodes.values()]


async def committed(brokers, offset):
    result = await brokers.leader().fetch("t", offset, isolation_level=1)
    assert result.error_code == 0
    return result


@pytest.mark.parametrize("start", [1, 2, 3, 4])
def test_a_new_leader_whose_log_start_moved_while_it_followed_tells_what_the_former_one_told(tmp_path, start):
    """0, 1: records that are aborted; 2: their marker; 3: a record of an open transaction; then the log ends."""

    async def test(brokers):
        producer = brokers.producer
        for _ in range(2):
            assert await brokers.send() is NONE
        assert await brokers.end(is_commit=False) is NONE
        await brokers.completed("CompleteAbort")
        assert await brokers.send() is NONE
        assert await delete_up_to(brokers.leader(), start) == start
        await until(lambda: all(each.start_offset == start for each in replicas_of(brokers)))
        former = await committed(brokers, start)
        await brokers.move(brokers.cluster.leader_of("t"))
        result = await committed(brokers, start)
        aborted = [(producer.producer_id, 0)] if start < 3 else []
        assert rows(result) == rows(former) == aborted
        assert shown(result) == shown(former) == []
        assert result.last_stable_offset == former.last_stable_offset == max(3, start)
        assert await open_in(brokers.leader()) == [3]
        gone = await brokers.leader().fetch("t", start - 1, isolation_level=1)
        assert gone.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await brokers.send() is NONE
        assert await brokers.end() is NONE
        await brokers.completed("CompleteCommit")
        result = await committed(brokers, start)
        assert (result.last_stable_offset, rows(result)) == (6, aborted)
        assert shown(result) == [at for at in (3, 4) if at >= start]

    with_brokers(tmp_path, test)
