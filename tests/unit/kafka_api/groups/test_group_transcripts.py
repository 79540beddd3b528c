"""Every transition of a consumer group, as a story; see `group_transcript` and `group_transitions`."""

import os
from pathlib import Path

import pytest

from kafka_api.groups.group import Group, GroupState
from kafka_api.protocol.error_codes import ErrorCode
from tests.unit.kafka_api.groups.group_transcript import replay
from tests.unit.kafka_api.groups.group_transitions import TRANSITIONS, is_listed
from tests.unit.kafka_api.groups.group_walk import walk

_FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))
_WALKS = range(60)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_the_group_prints_what_the_transcript_says(path: Path) -> None:
    text = path.read_text()
    printed, _ = replay(text)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(printed)
    else:
        assert printed == text


def test_every_transition_is_listed_and_told_by_a_transcript() -> None:
    told = set().union(*(replay(path.read_text())[1] for path in _FILES))
    assert sorted(told) == sorted(TRANSITIONS)


def test_whatever_happens_to_a_group_it_makes_no_other_transition() -> None:
    walked = set().union(*(walk(seed).transitions for seed in _WALKS))
    assert sorted(each for each in walked if not is_listed(each)) == []
    # The walks have been about everywhere: what they have not met is rare.
    assert len(TRANSITIONS - walked) < len(TRANSITIONS) / 20


def _stays_dead(_group: Group) -> None:
    pass


def _rebalances_on_heartbeat(group: Group, now: float, _identity: object) -> ErrorCode:
    if group.state is GroupState.COMPLETING:
        group._rebalance(now)
    return ErrorCode.NONE


def _lets_nobody_go(_group: Group, _now: float, _identity: object) -> ErrorCode:
    return ErrorCode.NONE


@pytest.mark.parametrize(
    ("method", "wrong"),
    [("revive", _stays_dead), ("heartbeat", _rebalances_on_heartbeat), ("leave", _lets_nobody_go)],
)
def test_a_wrong_transition_is_noticed_by_the_transcripts_and_on_a_walk(
    monkeypatch: pytest.MonkeyPatch, method: str, wrong: object
) -> None:
    # The simulation deletes no groups: so these bugs are planted here, and not in tests/simulation/known_bugs.
    monkeypatch.setattr(Group, method, wrong)
    assert set().union(*(replay(path.read_text())[1] for path in _FILES)) != TRANSITIONS
    assert not all(is_listed(each) for seed in range(10) for each in walk(seed).transitions)
