"""Linearizability of registers: small histories by hand, many against brute force, long ones in a window."""

import itertools
import random

import pytest

from raftka.check.errors import HistoryError
from raftka.check.operations import Read
from raftka.check.register_history import CAS_DONE, CAS_REFUSED, NEVER, NULL, READ, WRITE, RegisterHistory, Step
from raftka.check.register_model import check_register


def verdict(*steps, configurations_max=100_000):
    history = RegisterHistory(operations=len(steps))
    history.steps["k"] = list(steps)
    history.lines = {each.line: Read("ok", 1, each.inv, "k") for each in steps}
    return check_register(history, "cas", configurations_max)


def is_valid(*steps):
    return verdict(*steps).is_valid


def read(value, inv, ret, line=0):
    return Step(READ, value, 0, inv, ret, line)


def write(value, inv, ret=NEVER, line=0):
    return Step(WRITE, 0, value, inv, ret, line)


def cas(expected, new, inv, ret=NEVER, line=0):
    return Step(CAS_DONE, expected, new, inv, ret, line)


def refused(expected, new, inv, ret, line=0):
    return Step(CAS_REFUSED, expected, new, inv, ret, line)


def test_a_register_is_null_until_something_is_written():
    assert is_valid(read(NULL, 1, 2), write(1, 3, 4), read(1, 5, 6))
    assert not is_valid(read(1, 1, 2), write(1, 3, 4))
    assert not is_valid(write(1, 1, 2), read(NULL, 3, 4))


def test_what_overlaps_may_take_effect_in_any_order():
    assert is_valid(write(1, 1, 10), write(2, 1, 10), read(2, 11, 12), read(2, 13, 14))
    assert is_valid(write(1, 1, 10), write(2, 1, 10), read(1, 11, 12))
    assert not is_valid(write(1, 1, 10), write(2, 1, 10), read(1, 11, 12), read(2, 13, 14))


def test_intervals_are_closed():
    assert is_valid(write(1, 1, 5), read(NULL, 5, 6))
    assert not is_valid(write(1, 1, 4), read(NULL, 5, 6))


def test_a_stale_read_is_found():
    assert not is_valid(write(1, 1, 2), write(2, 3, 4), read(1, 5, 6))


def test_a_write_without_an_end_may_take_effect_late_or_never_but_only_once():
    assert is_valid(write(1, 1), read(NULL, 2, 3), read(1, 4, 5))
    assert is_valid(write(1, 1), read(NULL, 2, 3), read(NULL, 400, 500))
    assert not is_valid(write(1, 1), read(1, 2, 3), write(2, 4, 5), read(1, 6, 7))
    assert not is_valid(write(1, 5), read(1, 2, 3))


def test_compare_and_set_takes_effect_where_it_finds_what_it_expects():
    assert is_valid(write(1, 1, 2), cas(1, 2, 3, 4), read(2, 5, 6))
    assert not is_valid(write(1, 1, 2), cas(2, 3, 3, 4))
    assert is_valid(write(1, 1, 2), refused(2, 3, 3, 4), read(1, 5, 6))
    assert not is_valid(write(1, 1, 2), refused(1, 3, 3, 4))
    assert not is_valid(write(1, 1, 2), cas(1, 2, 3, 10), cas(1, 3, 3, 10))


def test_a_refused_compare_and_set_may_have_met_what_nobody_else_met():
    assert is_valid(write(1, 1, 2), write(9, 3), refused(1, 3, 4, 5), read(9, 6, 7))
    assert is_valid(write(1, 1, 2), write(9, 3), refused(1, 3, 4, 5))
    assert is_valid(write(1, 1, 2), cas(1, 9, 3), refused(1, 3, 4, 5))


def test_many_without_an_end_cost_no_more_than_a_few():
    steps = [write(100 + number, number * 10) for number in range(60)]
    steps += [cas(NULL, 500 + number, number * 10 + 1) for number in range(60)]
    for number in range(200):
        at = 1000 + 10 * number
        steps += [write(1, at, at + 1), refused(2, 3, at + 2, at + 3), read(1, at + 4, at + 5)]
    result = verdict(*steps)
    assert result.is_valid


def test_the_proof_is_what_was_under_way():
    result = verdict(write(1, 1, 2, line=1), write(2, 3, 8, line=2), read(3, 4, 5, line=3))
    [finding] = result.findings
    [anomaly] = finding.examples
    assert (finding.name, anomaly.subject) == ("not-linearizable", "k")
    assert anomaly.text.startswith("the operation of line 3 has no place")
    assert [each["line"] for each in anomaly.operations] == [1, 2, 3]


def test_the_proof_says_who_wrote_what_was_read_and_what_should_have_been():
    steps = [write(value, 10 * value, 10 * value + 1, line=value) for value in range(1, 50)]
    [finding] = verdict(*steps, read(7, 600, 601, line=50)).findings
    assert [each["line"] for each in finding.examples[0].operations] == [7, 49, 50]


def test_a_key_that_is_wrong_is_a_verdict_though_another_cannot_be_searched():
    history = RegisterHistory(operations=33)
    history.steps["wide"] = [write(number, 1, 100, line=number) for number in range(1, 30)] + [read(1, 2, 100)]
    history.steps["wrong"] = [write(1, 1, 2, line=30), write(2, 3, 4, line=31), read(1, 5, 6, line=32)]
    history.lines = {number: Read("ok", 1, 1, "k") for number in range(33)}
    result = check_register(history, "register", 1000)
    assert not result.is_valid
    assert [each.subject for each in result.findings[0].examples] == ["wrong"]
    [unjudged] = result.unjudged
    assert unjudged.startswith("key 'wide': more than 1000 ways")


def test_a_window_that_is_too_wide_is_named_and_nothing_is_claimed():
    steps = [write(number, 1, 100, line=number) for number in range(1, 30)]
    with pytest.raises(
        HistoryError, match=r"key 'k': more than 1000 ways .* 30 operations .* line 0 to line 29, 0 of them"
    ):
        verdict(*steps, read(1, 2, 100, line=0), configurations_max=1000)


def test_a_long_history_is_searched_in_a_small_window():
    rng, steps, value = random.Random(1), [], NULL
    for number in range(20_000):
        inv = 10 * number
        if rng.random() < 0.5:
            value = number + 1
            steps.append(write(value, inv, inv + 5))
        else:
            steps.append(read(value, inv, inv + 5))
    assert is_valid(*steps)
    steps[15_000:15_000] = [write(77_777, 150_000, 150_001), read(77_776, 150_002, 150_003)]
    assert not is_valid(*steps)


def explains(steps):
    """By trying every order of every choice of those without an end."""
    must = [each for each in steps if each.ret != NEVER]
    may = [each for each in steps if each.ret == NEVER]
    for size in range(len(may) + 1):
        for chosen in itertools.combinations(may, size):
            if any(runs(order) for order in itertools.permutations([*must, *chosen])):
                return True
    return False


def runs(order):
    value, latest = NULL, 0
    for each in order:
        # Each takes effect at some instant of its interval, and none before the one before it.
        latest = max(latest, each.inv)
        if latest > each.ret:
            return False
        if each.kind in (READ, CAS_DONE) and value != each.expected:
            return False
        if each.kind == CAS_REFUSED and value == each.expected:
            return False
        value = each.new if each.kind in (WRITE, CAS_DONE) else value
    return True


def random_steps(rng):
    steps = []
    for line in range(rng.randrange(2, 7)):
        inv = rng.randrange(1, 20)
        kind = rng.choice([READ, READ, WRITE, WRITE, CAS_DONE, CAS_REFUSED])
        endless = kind in (WRITE, CAS_DONE) and rng.random() < 0.3
        expected, new = rng.randrange(0, 3), rng.randrange(1, 3)
        ret = NEVER if endless else inv + rng.randrange(0, 10)
        steps.append(Step(kind, expected if kind != WRITE else 0, new if kind != READ else 0, inv, ret, line))
    return steps


def test_the_verdict_is_that_of_brute_force():
    verdicts = set()
    for seed in range(1500):
        steps = random_steps(random.Random(seed))
        expected = explains(steps)
        assert is_valid(*steps) == expected, f"seed {seed}: {steps}"
        verdicts.add(expected)
    assert verdicts == {True, False}
