"""Whom a reader's round asks: as few as make a majority, who owes the least first, and everybody when that takes long."""

from collections.abc import Iterator

import pytest

from raft.linearizable_barrier import _ASK_ALL_SECONDS
from raft.options import RaftOptions
from tests.unit.raft.stage import Stage

OPTIONS = RaftOptions(election_jitter=0.0)


class Asked:
    """A leader of five, and the followers that its readers ask for a heartbeat, round by round."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rounds = stage.actors[1].asked_soon
        self.rounds.clear()

    def read(self, name: str = "r") -> None:
        self.stage.read(1, name)
        self.stage.settle()


@pytest.fixture
def asked() -> Iterator[Asked]:
    with Stage(5, OPTIONS) as stage:
        for node_id in stage.actors:
            stage.start(node_id)
        stage.elect(1)
        stage.wire.lose(lambda _: True)
        yield Asked(stage)


def test_two_of_four_followers_are_asked_and_all_when_these_are_slow(asked: Asked) -> None:
    asked.read()
    assert asked.rounds == [[2, 3]]
    asked.stage.advance(_ASK_ALL_SECONDS)
    assert asked.rounds == [[2, 3], [2, 3, 4, 5]]


def test_nobody_else_is_asked_once_the_round_is_confirmed(asked: Asked) -> None:
    asked.read()
    asked.stage.beat(1)
    asked.stage.settle()
    asked.stage.deliver(lambda message: message.target in (2, 3) or message.source in (2, 3))
    assert "r confirmed" in asked.stage.events
    asked.stage.advance(_ASK_ALL_SECONDS)
    assert asked.rounds == [[2, 3]]


def test_who_owes_answers_is_asked_last(asked: Asked) -> None:
    for node in (2, 4):
        asked.stage.replica(1).state.followers[node].sent_requests += 1
    asked.read()
    assert asked.rounds == [[3, 5]]


def test_who_cannot_be_reached_is_not_asked_first(asked: Asked) -> None:
    asked.stage.wire.is_cut[3] = True
    asked.read()
    assert asked.rounds == [[2, 4]]
    for node in (2, 4):
        asked.stage.wire.is_cut[node] = True
    asked.read("without a majority that is up")
    assert asked.rounds == [[2, 4]], "it shares the round that is under way"
    asked.stage.advance(_ASK_ALL_SECONDS)
    assert asked.rounds[-1] == [2, 3, 4, 5]
