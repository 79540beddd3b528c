"""Drawn transactional histories: nothing is reported of valid ones, and each planted fault by its name."""

import json
import random

import msgspec
import pytest
from audits import BLOCKS, BUNDLES, same_of_log, text_of
from generated_transactions import FAULTS, as_lists, transactional_history
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from stories import judge

from raftka.check.lists.history import ListHistory
from raftka.check.lists.model import check_lists
from raftka.check.operations import Line
from raftka.check.transactions.cycles import components, shortest_cycle
from raftka.cli.root import run

_decoder = msgspec.json.Decoder(Line)
DRAWN = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


def verdict_on(lines):
    return judge([_decoder.decode(msgspec.json.encode(each)) for each in lines])


def verdict_on_lists(lines):
    history = ListHistory()
    for number, line in enumerate(lines, 1):
        history.take(number, _decoder.decode(msgspec.json.encode(line)))
    return check_lists(history)


def is_judged(lines):
    return any(each["f"] == "send" and each["type"] == "ok" for each in lines)


@DRAWN
@given(rng=st.randoms(use_true_random=True))
def test_nothing_is_reported_of_a_valid_history(rng):
    lines = transactional_history(rng).lines
    assume(is_judged(lines))
    verdict = verdict_on(lines)
    assert verdict.findings == [], "\n".join(map(str, lines))


@DRAWN
@given(rng=st.randoms(use_true_random=True))
def test_nothing_is_reported_of_the_same_history_as_lists(rng):
    lines = as_lists(transactional_history(rng))
    assume(any(operation[0] == "append" for each in lines for operation in each["ops"]))
    verdict = verdict_on_lists(lines)
    assert verdict.findings == [], "\n".join(map(str, lines))


@pytest.mark.parametrize("name", FAULTS)
@settings(DRAWN, max_examples=15)
@given(rng=st.randoms(use_true_random=True))
def test_a_planted_fault_is_reported_by_its_name(name, rng):
    cluster = transactional_history(rng, steps=160)
    assume(FAULTS[name](cluster, rng))
    assert name in {each.name for each in verdict_on(cluster.lines).findings}, "\n".join(map(str, cluster.lines))


@pytest.mark.parametrize("name", ["aborted-read", "precommitted-read", "torn-read"])
@settings(DRAWN, max_examples=15)
@given(rng=st.randoms(use_true_random=True))
def test_a_planted_fault_is_reported_of_lists_too(name, rng):
    cluster = transactional_history(rng, steps=160)
    assume(FAULTS[name](cluster, rng))
    lines = as_lists(cluster)
    assert name in {each.name for each in verdict_on_lists(lines).findings}, "\n".join(map(str, lines))


@pytest.mark.parametrize("sizes", [BUNDLES, BLOCKS], ids=["bundles", "blocks"])
@settings(DRAWN, max_examples=15)
@given(rng=st.randoms(use_true_random=True), name=st.sampled_from(sorted(FAULTS)), cut=st.integers(0, 200))
def test_an_audit_says_what_the_checker_says(sizes, rng, name, cut):
    cluster = transactional_history(rng, steps=100)
    FAULTS[name](cluster, rng)
    same_of_log([text_of(cluster.lines[:cut]), text_of(cluster.lines[cut:])], sizes)


@given(st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7), max_size=4), max_size=8))
def test_components_are_those_of_mutual_reachability(edges):
    reached = {node: {node} for node in range(8)}
    steps = {node: set(edges.get(node, ())) for node in range(8)}
    for _ in range(8):
        reached = {node: its | {end for each in its for end in steps[each]} for node, its in reached.items()}
    loops = {node for node in range(8) if any(node in reached[each] for each in steps[node])}
    expected = {frozenset(each for each in loops if each in reached[node] and node in reached[each]) for node in loops}
    found = components(edges)
    assert {frozenset(each) for each in found} == expected
    for component in found:
        cycle = shortest_cycle(edges, component)
        assert len(set(cycle)) == len(cycle)
        assert all(two in edges[one] for one, two in zip(cycle, [*cycle[1:], cycle[0]], strict=True))


def test_a_long_chain_of_transactions_needs_no_deep_stack():
    edges = {number: [number + 1] for number in range(50_000)} | {50_000: [0]}
    [component] = components(edges)
    assert len(component) == 50_001


@pytest.fixture
def checked(tmp_path, capsys):
    def check(lines, *options):
        path = tmp_path / "history"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        code = run(["check", str(path), *options])
        told = capsys.readouterr()
        return code, told.out, told.err

    return check


def seeded(name=None):
    for seed in range(100):
        rng = random.Random(seed)
        cluster = transactional_history(rng, steps=200)
        if name is None or FAULTS[name](cluster, rng):
            return cluster
    raise AssertionError(f"no history that {name} can be planted in")


def test_the_command_judges_transactions(checked):
    code, out, _ = checked(seeded().lines)
    assert (code, out.startswith("valid\n")) == (0, True)
    for name in FAULTS:
        code, out, _ = checked(seeded(name).lines, "--explain")
        assert code == 1
        assert f"{name}: " in out


def test_the_command_judges_lists(checked):
    code, out, error = checked(as_lists(seeded()), "--model", "append")
    assert (code, error) == (0, "")
    assert "operations judged (append)" in out
    code, out, _ = checked(as_lists(seeded("aborted-read")), "--model", "append", "--explain")
    assert code == 1
    assert "aborted-read: 1 case" in out
    code, _, error = checked(as_lists(seeded()))
    assert code == 2
    assert "--model append" in error
    code, _, error = checked(seeded().lines, "--model", "append")
    assert code == 2
    assert "--model log" in error
