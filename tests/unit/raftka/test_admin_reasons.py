"""Which reasons of a broker that is not ready are worth waiting for."""

import pytest

from raftka.admin_client import is_answer, is_permanent, not_ready_reason


@pytest.mark.parametrize(
    ("reason", "permanent"),
    [
        ("group 1af9/0 cannot start: 1-1.log is damaged at byte 7", True),
        ("group 1af9/0 has stopped: write failed", True),
        ("group 1af9/0 is damaged: 1-1.log", True),
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
