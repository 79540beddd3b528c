"""Patterns of transactional ids: they say what Python's expressions say, in linear time, and the rest is refused."""

import itertools
import random
import re

import pytest

from kafka_api.transactions.id_pattern import IdPattern, InvalidPatternError


def matches(pattern, text):
    return [*pattern.match(text)][-1]


PIECES = ["a", "b", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\.", "(a|b)", "(?:ab)", "()", "(a|)"]
COUNTS = ["", "", "", "*", "+", "?", "{2}", "{1,}", "{0,2}", "{0}", "*?", "+?"]


def test_a_pattern_matches_what_pythons_expressions_match():
    rng = random.Random(7)
    for _ in range(400):
        pieces = [rng.choice(PIECES) + rng.choice(COUNTS) for _ in range(rng.randrange(1, 5))]
        pattern = "|".join(["".join(pieces), *rng.sample(PIECES, rng.randrange(2))])
        own = IdPattern(pattern)
        for _ in range(20):
            text = "".join(rng.choices("abc1.", k=rng.randrange(6)))
            assert matches(own, text) == (re.fullmatch(pattern, text) is not None), (pattern, text)


def test_the_ends_may_be_named():
    pattern = IdPattern("^flink-[0-9]{1,3}$")
    assert [matches(pattern, text) for text in ("flink-1", "flink-1234", "x-flink-1")] == [True, False, False]


def test_a_pattern_that_means_harm_takes_no_time():
    pattern = IdPattern("(a*)*(a|a)*(a?){20}b")
    assert not matches(pattern, "a" * 30_000)
    many_sets = IdPattern(".*a.{12}")
    assert not matches(many_sets, "ab" * 2000 + "b" * 13)


def test_a_long_id_is_matched_in_slices():
    rng = random.Random(7)
    text = "".join(rng.choices("ab", k=3000))
    pattern = IdPattern(".*a.{200}")
    steps = [0, *(pattern._steps for _ in pattern.match(text))]
    assert matches(pattern, text) is (text[-201] == "a")
    # A step costs as many looks as there are states, some hundred here.
    assert len(steps) > 100
    assert max(after - before for before, after in itertools.pairwise(steps)) < 100


def test_what_a_pattern_remembers_is_bounded():
    pattern = IdPattern(".*")
    for first in range(0x10000, 0x1F000, 1000):
        assert matches(pattern, "".join(map(chr, range(first, first + 1000))))
    assert sum(len(each.after) for each in pattern._known.values()) <= 20_000


REFUSED = ["(", ")", "(a", "[", "[b-a]", "a**", "*", "a{2", "a{3,2}", "a{x}", "a{2000}", "(?i)a", r"\p", "\\", "a^b"]


@pytest.mark.parametrize("pattern", [*REFUSED, "a" * 301, "(a{30}){30}", "(" * 60 + "a" + ")" * 60])
def test_what_is_not_understood_is_refused(pattern):
    with pytest.raises(InvalidPatternError):
        IdPattern(pattern)
