"""Rules of health: each fires and keeps quiet where it should, and one picture has one list of findings."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.health.findings import Finding, Level, from_json, ok, to_json, worst
from raftka.health.picture import (
    RATE_KEYS,
    THROTTLED_KEYS,
    BoundFill,
    BrokerPicture,
    MemberPicture,
    PartitionPicture,
    Picture,
    TopicPicture,
)
from raftka.health.reasons import explain
from raftka.health.rules import RULES, Rule, judge
from tests.unit.raftka.health_examples import (
    FIRES,
    QUIET,
    WELL,
    broker,
    found,
    of_brokers,
    of_partitions,
    partition,
)

_NODES = st.integers(0, 5)
_TEXTS = st.sampled_from(("", "a", "raft0 has no leader", "orders-0 has stopped: x", "something new"))
_FLAGS = st.none() | st.booleans()
_NUMBERS = st.integers(0, 2**40)

_FILLS = st.builds(
    BoundFill,
    *(st.sampled_from("ab"), st.just("bytes"), _NUMBERS, st.integers(1, 2**40), st.integers(0, 9), st.just("a cure")),
    st.booleans(),
)
_BROKERS = st.builds(
    BrokerPicture,
    _NODES,
    kafka=st.sampled_from(("", "h:1", "h:2")),
    answers=_FLAGS,
    hangs=st.booleans(),
    runs=_FLAGS,
    is_ready=_FLAGS,
    not_ready=_TEXTS,
    cure=_TEXTS,
    admin_error=_TEXTS,
    refused=_TEXTS,
    refused_cure=_TEXTS,
    refused_age=st.none() | st.floats(0, 1e9),
    version=st.sampled_from(("", "1", "2")),
    configs=st.none() | st.dictionaries(st.sampled_from(("a", "node.id", "disk.reserve.bytes")), st.none() | _TEXTS),
    own_configs=st.frozensets(st.sampled_from(("a", "node.id", "disk.reserve.bytes"))),
    fills=st.lists(_FILLS, max_size=3, unique_by=lambda fill: fill.name).map(tuple),
    disk_spare_bytes=st.none() | st.integers(-(2**40), 2**40),
    is_disk_short=st.booleans(),
    clock_offset=st.none() | st.floats(-1e6, 1e6),
    events_lost=_NUMBERS,
    events_span=st.none() | st.floats(0, 1e9),
    member=st.none()
    | st.builds(
        MemberPicture,
        st.sampled_from(("active", "draining", "decommissioning")),
        *(st.floats(0, 1e9), st.floats(0, 1e9), st.booleans(), st.sampled_from(("voter", "learner")), _NUMBERS),
    ),
    throttles=st.sampled_from(((), RATE_KEYS[:1], RATE_KEYS)),
)
_PARTITIONS = st.builds(
    PartitionPicture,
    *(st.sampled_from("tu"), st.integers(0, 20), st.none() | _NODES),
    replicas=st.lists(_NODES, min_size=1, max_size=3, unique=True).map(tuple),
    in_sync=st.lists(_NODES, max_size=3, unique=True).map(tuple),
    min_isr=st.none() | st.integers(1, 4),
    is_stalled=st.booleans(),
    target=st.lists(_NODES, max_size=3, unique=True).map(tuple),
)
_PICTURES = st.builds(
    Picture,
    brokers=st.lists(_BROKERS, max_size=4, unique_by=lambda each: each.node_id).map(tuple),
    controller=st.none() | st.integers(-1, 5),
    partitions=st.none() | st.lists(_PARTITIONS, max_size=20, unique_by=lambda each: each.name).map(tuple),
    topics=st.lists(
        st.builds(
            *(TopicPicture, st.sampled_from("tu"), st.none() | st.integers(1, 4), st.booleans(), st.booleans()),
            st.sampled_from(((), THROTTLED_KEYS)),
        ),
        max_size=2,
        unique_by=lambda each: each.name,
    ).map(tuple),
    moves=st.none() | st.just(()),
    silent=st.lists(st.sampled_from(("h:8", "h:9")), unique=True).map(tuple),
    hanging=st.lists(st.sampled_from(("h:6", "h:7")), unique=True).map(tuple),
    is_raftka=st.booleans(),
)


def _name(rule: Rule) -> str:
    return rule.name


def test_every_rule_has_pictures_at_which_it_fires_and_at_which_it_does_not() -> None:
    names = [rule.name for rule in RULES]
    assert list(FIRES) == list(QUIET) == names
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("rule", RULES, ids=_name)
def test_a_rule_fires_where_something_is_wrong(rule: Rule) -> None:
    for picture in FIRES[rule.name]:
        findings = found(rule, picture)
        assert findings, picture
        assert all(each.cause and each.cure for each in findings)


@pytest.mark.parametrize("rule", RULES, ids=_name)
def test_a_rule_keeps_quiet_where_nothing_is_wrong_or_known(rule: Rule) -> None:
    for picture in (WELL, Picture(), *QUIET[rule.name]):
        assert found(rule, picture) == []


def test_a_cluster_that_is_well_has_only_good_findings() -> None:
    assert [(each.what, each.words) for each in judge(WELL)] == [
        ("brokers", "1, 2, 3 answer; 2 is the controller"),
        ("leaders", "every partition has one"),
        ("replicas", "all in sync"),
        ("balance", "no broker leads more than 4 of 12 partitions"),
        ("config", "the same for all brokers"),
        *((f"broker {node}", "ready; its clock agrees with the clock of this machine") for node in (1, 2, 3)),
    ]


@given(_PICTURES, st.randoms(use_true_random=False))
def test_the_same_picture_has_the_same_findings_in_whatever_order_it_was_filled(
    picture: Picture, chance: random.Random
) -> None:
    def shuffled(items: tuple[Any, ...] | None) -> Any:
        return None if items is None else tuple(chance.sample(items, len(items)))

    other = replace(
        picture,
        brokers=tuple(replace(each, fills=shuffled(each.fills)) for each in shuffled(picture.brokers)),
        partitions=shuffled(picture.partitions),
        topics=shuffled(picture.topics),
        silent=shuffled(picture.silent),
        hanging=shuffled(picture.hanging),
    )
    assert judge(other) == judge(picture) == judge(picture)


@given(_PICTURES)
def test_every_problem_and_warning_has_a_cause_and_a_cure_in_one_line(picture: Picture) -> None:
    for each in judge(picture):
        assert each.what
        assert each.words
        assert "\n" not in each.words + each.cause + each.cure
        if each.level in (Level.WARNING, Level.PROBLEM):
            assert each.cause
            assert each.cure


@given(_PICTURES)
def test_findings_that_a_broker_sends_are_those_that_the_doctor_shows(picture: Picture) -> None:
    findings = judge(picture)
    assert [from_json(json.loads(json.dumps(to_json(each)))) for each in findings] == findings


def test_findings_name_five_partitions_and_count_the_others() -> None:
    picture = of_partitions(*(partition(number=number, leader=None, in_sync=()) for number in range(7)))
    leaders = next(each for each in judge(picture) if each.what == "leaders")
    assert leaders.words == (
        "no leader for orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more: no reads and no writes"
    )


def test_a_process_that_runs_is_not_to_be_started() -> None:
    waits = broker(2, answers=False, is_ready=False, not_ready="raft0 has no leader", cure="start broker 3")
    findings = judge(of_brokers(waits))
    assert all("does not answer" not in each.words for each in findings)
    (problem,) = [each for each in findings if each.level is Level.PROBLEM]
    assert problem.words == "runs, but serves no clients at 10.0.0.2:9092: raft0 has no leader"
    assert problem.cure == "start broker 3", "its own cure is the better one"


@pytest.mark.parametrize(
    "lost", [{"hangs": True}, {"refused": "another directory", "refused_cure": "bring it back", "refused_age": 7300.0}]
)
def test_a_broker_of_which_more_is_known_is_not_to_be_started(lost: dict[str, Any]) -> None:
    picture = of_brokers(broker(2, answers=False, runs=False, is_ready=None, admin_error="timed out", **lost))
    (problem,) = [each for each in judge(picture) if each.level is Level.PROBLEM]
    assert problem.what == "broker 2"
    assert "start the broker" not in problem.cure
    assert "brokers" not in {each.what for each in judge(picture)}, "nor do all answer"
    if "refused" in lost:
        assert problem.words == "does not answer; links with it were refused (2 h ago): another directory"
        assert problem.cure == "bring it back"


def test_a_cure_never_says_that_a_lost_process_does_not_run() -> None:
    (problem,) = [each for each in judge(of_brokers(broker(2, answers=False, runs=None))) if each.what == "brokers"]
    assert "or restart it if it hangs" in problem.cure
    assert "or hangs" in problem.cause


@pytest.mark.parametrize(("lost", "words"), [((1, 2, 3), "all in sync by their leaders' last word"), ((1,), "all in")])
def test_replicas_of_a_lost_broker_are_in_sync_by_an_old_word(lost: tuple[int, ...], words: str) -> None:
    picture = replace(
        of_brokers(broker(2, answers=False, runs=None)), partitions=(partition(replicas=lost, in_sync=lost),)
    )
    replicas = next(each for each in judge(picture) if each.what == "replicas")
    assert replicas.level is Level.OK
    assert replicas.words.startswith(words)
    assert ("broker 2" in replicas.words) == (2 in lost)


def test_replicas_in_sync_are_told_with_the_moves_that_are_under_way() -> None:
    picture = of_partitions(partition(replicas=(1,), in_sync=(1,), target=(2,)), partition(number=1))
    (replicas,) = [each for each in judge(picture) if each.what == "replicas"]
    assert replicas.words == "all in sync; 1 partition being moved: replicas that only come do not count"


@pytest.mark.parametrize(
    ("reason", "cure"),
    [
        ("not registered with raft0 yet", "start the other brokers"),
        ("raft0 has no leader", "start the other brokers"),
        ("not every broker has registered yet", "start every broker"),
        ("the disk hangs, and nothing is led here before a probe write has passed: x", "look at the disk"),
        ("replicas are being opened", "wait"),
        ("orders-0 is opened again without what is damaged", "keep the other replicas"),
        ("orders-0 cannot start: 1-1.log is damaged at byte 7", "repair the disk"),
        ("raft0 has stopped: write failed", "repair the disk"),
        ("orders-0 gets back what damage took, up to entry 7@2", "wait"),
        ("partition orders-0 has no leader", "bring brokers back"),
        ("a reason of a newer version", "read its log"),
    ],
)
def test_every_reason_not_to_be_ready_has_a_cure(reason: str, cure: str) -> None:
    assert cure in explain(reason).cure
    assert explain(reason).cause
    assert "{" not in explain(reason).cure


@pytest.mark.parametrize("reason", ["the disk hangs, and so on", "orders-0 is damaged: 1-1.log"])
def test_the_cure_for_a_disk_names_the_command_that_replaces_a_lost_one(reason: str) -> None:
    assert explain(reason, 2).cure.endswith("; if the disk is lost: raftka broker replace 2")
    assert explain(reason).cure.endswith("; if the disk is lost: raftka broker replace N")


def test_a_missing_broker_whose_disk_is_lost_is_replaced() -> None:
    lost = broker(2, answers=False, runs=None)
    picture = replace(of_brokers(lost), partitions=(partition(in_sync=(1, 3)),))
    cures = {each.what: each.cure for each in judge(picture) if each.level is Level.PROBLEM}
    assert all("raftka broker replace N" in cures[what] for what in ("brokers", "replicas"))
    # Another Kafka has no such command.
    cures = {each.what: each.cure for each in judge(replace(picture, is_raftka=False))}
    assert not any("raftka broker" in cure for cure in cures.values())


@pytest.mark.parametrize("level", [Level.WARNING, Level.PROBLEM])
def test_a_finding_that_needs_a_cure_has_one(level: Level) -> None:
    with pytest.raises(ValueError, match="without a cure"):
        Finding(level, "disk", "is full")


@pytest.mark.parametrize("document", [None, [], {}, {"level": "bad", "what": "", "words": "", "cause": "", "cure": ""}])
def test_what_is_no_finding_is_refused(document: object) -> None:
    with pytest.raises(ValueError):
        from_json(document)


def test_the_worst_level_of_nothing_is_ok() -> None:
    assert worst([]) is Level.OK
    assert worst([ok("a", "b"), Finding(Level.NOTE, "a", "b"), ok("a", "b")]) is Level.NOTE
    assert [level.rank for level in Level] == [0, 1, 2, 3]
