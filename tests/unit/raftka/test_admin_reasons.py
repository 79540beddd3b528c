"""Which reasons of a broker that is not ready are worth waiting for."""

import pytest

from raftka.admin_client import is_answer, is_permanent, not_ready_reason
from raftka.broker import readiness
from tests.unit.cluster.cluster_nodes import cluster_of, run, until


@pytest.mark.parametrize(
    ("reason", "permanent"),
    [
        ("orders-0 cannot start: 1-1.log is damaged at byte 7", True),
        ("orders-0 has stopped: write failed", True),
        ("orders-0 is damaged: 1-1.log", True),
        ("raft0 has no leader", False),
        ("partition t-0 has no leader", False),
        ("not registered with raft0 yet", False),
    ],
)
def test_damaged_data_is_not_waited_for(reason: str, permanent: bool) -> None:
    assert is_permanent(reason) == permanent
    assert is_answer(reason)


def test_no_answer_is_told_from_a_brokers_own_reason() -> None:
    reason = not_ready_reason("127.0.0.1:1", timeout=1.0)
    assert reason is not None
    assert not is_answer(reason)
    assert not is_permanent(reason)


def test_a_broker_whose_disk_hangs_is_not_ready_until_a_probe_write_has_passed(tmp_path) -> None:
    async def test() -> None:
        async with cluster_of(tmp_path, 1) as cluster:
            await until(lambda: readiness.not_ready_reason(cluster[1]) is None)
            cluster[1].groups.limits.stalls.raise_doubt("its append hangs")
            reason = readiness.not_ready_reason(cluster[1])
            assert reason is not None
            assert reason.startswith("the disk hangs")
            assert reason.endswith("its append hangs")
            assert not is_permanent(reason)
            await until(lambda: readiness.not_ready_reason(cluster[1]) is None)

    run(test)
