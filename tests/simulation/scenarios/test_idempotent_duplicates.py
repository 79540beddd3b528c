"""RFC 0007: a duplicate shares the fate of its original, and waits for its own level (counterexample 8)."""

import asyncio

import pytest

import tests.simulation.world.observer
from cluster.node import Node
from cluster.producer_errors import OutOfOrderSequenceError
from cluster.producer_state import ProducerState
from model.ids import ConsistencyLevel, Index
from raft.errors import NotLeaderError, RaftError
from raft.linearizable_barrier import LinearizableBarrier
from tests.simulation.clients.test_idempotent_producers import duplicate_is_answered_at_once
from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario, Write
from tests.simulation.world.replica_view import content_key
from tests.simulation.world.world import SimulationError
from tests.unit.model.record_batches import build_batch

_DAY_MS = 24 * 3600 * 1000


def send(
    story: Scenario, node_id: int, first: int, level: ConsistencyLevel, *, epoch: int = 0, producer: int = 7
) -> Write:
    """Hand the batch with one sequence number of a producer to a node; the same number is the same batch."""
    value = b"%d/%d/%d" % (producer, epoch, first)
    batch = build_batch(value, producer_id=producer, producer_epoch=epoch, base_sequence=first)
    write = Write(content_key(batch), level)
    story.writes.append(write)
    story.cluster.history.sent.add(write.content)
    story.machine(node_id).spawn(story._produce(node_id, write, bytearray(batch), 1, 60.0))
    return write


def place(write: Write) -> tuple[int, int]:
    assert write.result is not None, write.error
    return write.result.first_index, write.result.base_offset


def test_a_retry_at_acks_all_of_a_write_at_acks_1_waits_until_it_is_committed() -> None:
    with Scenario(81) as story:
        leader = story.leader
        story.connect([leader])
        original = send(story, leader, 0, LEADER)
        story.wait(lambda: original.is_answered)
        quickly = send(story, leader, 0, LEADER)
        safely = send(story, leader, 0, QUORUM)
        story.wait(lambda: quickly.is_answered)
        story.run_for(0.3)
        assert not safely.is_answered
        assert place(quickly) == place(original)
        story.heal()
        story.wait(lambda: safely.is_answered)
        assert place(safely) == place(original)
        story.converge()
        assert [entry.content for entry in story.log(leader)].count(original.content) == 1


def _a_retry_of_what_no_follower_has() -> None:
    with Scenario(82) as story:
        old, new = story.leader, story.followers[0]
        first = send(story, old, 0, QUORUM)
        story.wait(lambda: first.is_answered)
        story.connect(story.followers)
        original = send(story, old, 1, LEADER)
        story.wait(lambda: original.is_answered)
        retry = send(story, old, 1, QUORUM)
        story.run_for(0.3)
        assert not retry.is_answered
        story.elect_into_office(new)
        # Its successor has other records at that place.
        other = story.write(new, QUORUM)
        again = send(story, new, 1, QUORUM)
        story.wait(lambda: other.is_answered and again.is_answered)
        assert place(again)[1] == place(original)[1] + 1
        story.heal()
        story.wait(lambda: retry.is_answered)
        assert isinstance(retry.error, RaftError)
        story.converge()
        # The old leader has truncated its copy, and knows the batch where its successor has it.
        story.elect_into_office(old)
        known = send(story, old, 1, QUORUM)
        story.wait(lambda: known.is_answered)
        assert place(known) == place(again)


def test_a_retry_whose_original_dies_with_its_leader_is_no_success_and_is_appended_anew() -> None:
    _a_retry_of_what_no_follower_has()


def test_a_lost_original_is_a_success_if_duplicates_are_answered_from_a_cache(monkeypatch) -> None:
    duplicate_is_answered_at_once(monkeypatch)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError):
        _a_retry_of_what_no_follower_has()


def test_duplicates_of_one_round_share_one_place_at_their_own_levels() -> None:
    with Scenario(83) as story:
        leader = story.leader
        sent = [send(story, leader, first, level) for first in (0, 1, 0, 1, 2) for level in (LEADER, QUORUM, LEADER)]
        story.wait(lambda: all(write.is_answered for write in sent))
        places = {write.content: place(write) for write in sent}
        assert [place(write) for write in sent] == [places[write.content] for write in sent]
        assert sorted(offset for _, offset in places.values()) == [0, 1, 2]
        story.converge()


def test_a_gap_is_refused_until_what_is_missing_has_come() -> None:
    with Scenario(84) as story:
        leader = story.leader
        early = send(story, leader, 1, QUORUM)
        story.wait(lambda: early.is_answered)
        assert isinstance(early.error, OutOfOrderSequenceError)
        in_order = [send(story, leader, first, QUORUM) for first in (0, 1)]
        story.wait(lambda: all(write.is_answered for write in in_order))
        assert [place(write)[1] for write in in_order] == [0, 1]
        story.converge()


def test_a_restarted_replica_knows_what_its_log_holds() -> None:
    with Scenario(85) as story:
        sent = [send(story, story.leader, first, QUORUM) for first in range(7)]
        story.wait(lambda: all(write.is_answered for write in sent))
        story.lose_power(*story.world.nodes)
        story.restart(*story.world.nodes)
        story.elect_into_office(1)
        again = [send(story, 1, first, QUORUM) for first in (6, 2, 7)]
        story.wait(lambda: all(write.is_answered for write in again))
        assert [place(write)[1] for write in again] == [6, 2, 7]
        story.converge()


def test_a_truncated_original_is_no_original() -> None:
    with Scenario(86) as story:
        old, new = story.leader, story.followers[0]
        first = send(story, old, 0, QUORUM)
        story.wait(lambda: first.is_answered)
        story.connect(story.followers)
        lost = send(story, old, 1, LEADER)
        story.wait(lambda: lost.is_answered)
        story.elect_into_office(new)
        story.heal()
        story.wait(lambda: story.log(old) == story.log(new))
        story.elect_into_office(old)
        again = send(story, old, 1, QUORUM)
        story.wait(lambda: again.is_answered)
        assert place(again)[1] == place(lost)[1]
        assert place(again)[0] > place(lost)[0]
        story.converge()


def _a_clock_jumps_a_day_ahead() -> None:
    """A producer has no answer yet when every broker's wall clock jumps, others write, and then it tries again."""
    with Scenario(88) as story:
        leader = story.leader
        original = send(story, leader, 0, QUORUM)
        story.wait(lambda: original.is_answered)
        for node in story.world.nodes.values():
            node.wall_clock.step(_DAY_MS + 1)
        # Whoever is silent for too long is forgotten when somebody else writes.
        other = send(story, leader, 0, QUORUM, producer=8)
        story.wait(lambda: other.is_answered)
        retry = send(story, leader, 0, QUORUM)
        story.wait(lambda: retry.is_answered)
        assert place(retry) == place(original), "it was appended again"
        story.elect_into_office(story.followers[0])
        again = send(story, story.leader, 0, QUORUM)
        story.wait(lambda: again.is_answered)
        assert place(again) == place(original)
        story.converge()


def test_a_wall_clock_that_jumps_a_day_ahead_forgets_no_producer() -> None:
    _a_clock_jumps_a_day_ahead()


def producers_expire_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    """Who has been silent for a day is forgotten, by a clock that an operator or NTP may set."""
    patch.setattr(Node, "_lived_ms", lambda node: node.env.wall_clock.now_ms())


def test_a_jump_of_the_clock_forgets_producers_if_they_expire_by_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    producers_expire_by_the_wall_clock(monkeypatch)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="it was appended again"):
        _a_clock_jumps_a_day_ahead()


def _a_deposed_leader_refuses() -> None:
    """What follows at the successor is a gap to a leader that does not know what it has missed."""
    with Scenario(87) as story:
        deposed, [new, other] = story.leader, story.followers
        first = send(story, deposed, 0, QUORUM)
        story.wait(lambda: first.is_answered)
        story.connect([new, other])
        # An epoch that nobody else will ever hear of.
        alone = send(story, deposed, 0, LEADER, epoch=1)
        story.wait(lambda: alone.is_answered)
        story.elect_into_office(new)
        at_successor = send(story, new, 1, QUORUM)
        story.wait(lambda: at_successor.is_answered)
        assert story.replica(deposed).is_in_office, "it does not know"
        stale = [send(story, deposed, 2, QUORUM, epoch=1), send(story, deposed, 1, QUORUM)]
        story.run_for(0.5)
        assert not any(write.is_answered for write in stale)
        story.wait(lambda: all(write.is_answered for write in stale), 3.0)
        assert all(isinstance(write.error, NotLeaderError) for write in stale)
        story.heal()
        story.wait(lambda: story.log(deposed) == story.log(new))
        follows = send(story, new, 2, QUORUM)
        story.wait(lambda: follows.is_answered)
        assert place(follows)[1] == place(at_successor)[1] + 1
        story.converge()


def test_a_deposed_leader_refuses_no_producer_from_what_it_knows() -> None:
    _a_deposed_leader_refuses()


def test_a_deposed_leader_would_refuse_producers_if_a_refusal_waited_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def wait(barrier: LinearizableBarrier, arrived: asyncio.Future[None]) -> None:
        """Confirm everybody."""

    monkeypatch.setattr(LinearizableBarrier, "wait", wait)
    with pytest.raises(AssertionError):
        _a_deposed_leader_refuses()


def cache_is_not_rolled_back(patch: pytest.MonkeyPatch) -> None:
    """What is truncated stays known, as in a cache beside the log."""

    def truncate(state: ProducerState, first_removed: Index) -> None:
        now_ms = state._now_ms()
        removed = [placed for placed in state._tail if placed.log_index >= first_removed]
        for placed in removed:
            state._table.settle(placed, now_ms)
        state._tail.truncate(first_removed)

    patch.setattr(ProducerState, "truncate", truncate)


def test_a_cache_that_is_not_rolled_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cache_is_not_rolled_back(monkeypatch)
    with pytest.raises(SimulationError) as raised:
        test_a_truncated_original_is_no_original()
    assert "acks=all was answered for entry" in str(raised.value.__cause__)
