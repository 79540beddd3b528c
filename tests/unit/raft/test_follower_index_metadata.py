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


def test_only_the_next_entries_in_order_are_expected_and_none_while_the_place_is_unknown() -> None:
    one = follower(expected=5)
    assert [one.expects(first) for first in (5, 6, 7)] == [False, True, False]
    one.on_left_behind()
    assert one.expects(6), "recovery fills from there: whoever follows may send"
    one.on_lost_contact()
    assert not one.expects(6)
    assert not one.expects(1), "not even what follows the match"


@pytest.mark.parametrize(
    "disturb",
    [
        lambda one: one.on_mismatch(reply(3, 4, 4, AppendStatus.GAP)),
        lambda one: one.on_lost_contact(),
        lambda one: one.on_busy(1, is_append=True),
    ],
    ids=["refused", "lost", "busy"],
)
def test_whatever_disturbs_it_sets_back_what_is_expected_to_the_match(disturb) -> None:
    one = follower(expected=9)
    one.on_success(reply(4, 4, 4))
    disturb(one)
    assert (one.expected_log_end_index, one.match_index) == (4, 4)
    assert one.needs_recovery
    assert one.is_probing


def test_a_second_loss_keeps_the_place_where_recovery_looks() -> None:
    one = follower(expected=5)
    one.on_mismatch(reply(2, 2, 2, AppendStatus.TERM_MISMATCH))
    one.on_lost_contact()
    assert one.next_index_hint == 3
    other = follower(expected=5)
    other.on_lost_contact()
    other.on_lost_contact()
    assert other.next_index_hint == 6


def _sent(one: FollowerIndexMetadata, count: int) -> None:
    for _ in range(count):
        one.next_request()


def test_after_a_loss_only_the_answer_to_a_later_request_lets_recovery_send() -> None:
    one = follower()
    _sent(one, 3)
    one.on_lost_contact()
    one.answered_request = 3
    assert not one.may_recover, "sent before the loss"
    _sent(one, 1)
    one.answered_request = 4
    assert one.may_recover


def test_each_busy_answer_puts_recovery_off_until_a_later_one() -> None:
    one = follower()
    _sent(one, 5)
    one.answered_request = 1
    one.on_busy(1, is_append=True)
    one.answered_request = 5
    assert not one.may_recover, "four more were sent before it was known, and say nothing"
    _sent(one, 2)
    one.answered_request = 6
    one.on_busy(6, is_append=False)
    assert not one.may_recover, "a heartbeat says that it is busy still"
    one.answered_request = 7
    assert one.may_recover


def test_a_busy_heartbeat_loses_no_place() -> None:
    one = follower(expected=5)
    one.on_busy(1, is_append=False)
    assert not one.needs_recovery
    assert one.expects(6)


def test_whoever_waits_for_room_is_called_with_each_answer() -> None:
    one, calls = follower(), []
    one.on_sent()
    one.on_sent()
    one.on_room = lambda: calls.append(one.in_flight)
    one.on_answered()
    one.on_answered()
    assert calls == [1, 0]
    with pytest.raises(AssertionError):
        one.on_answered()


def test_only_what_follows_is_sent_unless_recovery_probes() -> None:
    one = follower(expected=5)
    one.check_may_send(5, window=16)
    for prev_index in (4, 6):
        with pytest.raises(AssertionError, match=f"sends behind {prev_index}"):
            one.check_may_send(prev_index, window=16)
    one.lose_place()
    one.check_may_send(4, window=16)


def test_a_full_window_takes_no_further_request() -> None:
    one = follower(expected=5)
    one.on_sent()
    one.check_may_send(5, window=2)
    one.on_sent()
    with pytest.raises(AssertionError):
        one.check_may_send(5, window=2)
