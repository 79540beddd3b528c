"""What a leader believes of a follower."""

import pytest

from model.ids import Index, NodeId
from raft.follower_index_metadata import FollowerIndexMetadata
from raft.messages import AppendEntriesReply, AppendStatus
from raft.rules.agreement import CopyPosition


def follower(expected: int = 5) -> FollowerIndexMetadata:
    return FollowerIndexMetadata(NodeId(2), expected_log_end_index=Index(expected))


def reply(match: int, dirty: int, flushed: int, status: AppendStatus = AppendStatus.SUCCESS) -> AppendEntriesReply:
    return AppendEntriesReply(1, status, match, dirty, flushed)


def test_nothing_counts_before_the_first_success() -> None:
    one = follower()
    assert one.position == CopyPosition(Index(0), Index(0))
    one.on_alive(reply(0, 5, 5, AppendStatus.ALIVE))
    assert one.position == CopyPosition(Index(0), Index(0)), "written, but not known to be ours"


def test_what_counts_is_never_above_the_match() -> None:
    one = follower()
    one.on_success(reply(3, 7, 5))
    assert one.position == CopyPosition(Index(3), Index(3))
    one.on_success(reply(6, 7, 5))
    assert one.position == CopyPosition(Index(6), Index(5))


def test_an_older_success_lowers_no_match() -> None:
    one = follower()
    one.on_success(reply(6, 6, 6))
    one.on_success(reply(4, 6, 6))
    assert one.match_index == 6


def test_a_lost_tail_counts_no_more_even_below_the_match() -> None:
    one = follower()
    one.on_success(reply(6, 6, 6))
    one.on_mismatch(reply(4, 4, 4, AppendStatus.GAP))
    assert (one.match_index, one.needs_recovery, one.next_index_hint) == (4, True, 5)
    assert one.position == CopyPosition(Index(4), Index(4))


def test_only_the_next_entries_in_order_are_expected_and_none_in_recovery() -> None:
    one = follower(expected=5)
    assert [one.expects(first) for first in (5, 6, 7)] == [False, True, False]
    one.on_lost_contact()
    assert not one.expects(6)


def test_a_second_loss_keeps_the_place_where_recovery_looks() -> None:
    one = follower(expected=5)
    one.on_mismatch(reply(2, 2, 2, AppendStatus.TERM_MISMATCH))
    one.on_lost_contact()
    assert one.next_index_hint == 3
    other = follower(expected=5)
    other.on_lost_contact()
    assert other.next_index_hint == 6


def test_whoever_waits_for_quiet_is_called_once_when_the_last_request_has_ended() -> None:
    one, calls = follower(), []
    one.on_sent()
    one.on_sent()
    one.on_idle = lambda: calls.append(one.in_flight)
    one.on_answered()
    assert calls == []
    one.on_answered()
    one.on_sent()
    one.on_answered()
    assert calls == [0]
    with pytest.raises(AssertionError):
        one.on_answered()
