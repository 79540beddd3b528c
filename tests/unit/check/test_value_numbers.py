"""Values are numbered as a dictionary would, however many polls are only compared."""

import random
from collections import defaultdict
from itertools import count

import numpy as np
import pytest

from raftka.check.value_numbers import ValueNumbers


@pytest.mark.parametrize("seed", range(40))
def test_polls_that_repeat_are_numbered_as_if_each_value_were_looked_up(seed):
    rng = random.Random(seed)
    expected, numbers = defaultdict(count().__next__), ValueNumbers()
    given, wanted = [], []
    logs = [[f"{tp}-{offset}" for offset in range(300)] for tp in range(2)]
    only_sends = rng.randrange(20)
    for turn in range(60):
        tp = rng.randrange(2)
        first = rng.randrange(280)
        offsets = list(range(first, min(300, first + rng.randrange(1, 60))))
        values = [logs[tp][offset] for offset in offsets]
        if rng.random() < 0.3:
            values[rng.randrange(len(values))] = f"another {rng.randrange(5)}"
        if rng.random() < 0.2:
            del offsets[len(offsets) // 2], values[len(offsets)]
        if turn < only_sends or rng.random() < 0.3:
            order = rng.sample(range(len(values)), len(values))
            known = [offsets[at] if rng.random() < 0.9 else -1 for at in order]
            values = [values[at] for at in order]
            found = numbers.of_sends(np.full(len(values), tp), np.array(known, np.int64), values)
        else:
            found = numbers.of_poll(tp, np.array(offsets, np.int64), values)
        given.extend(found.tolist())
        wanted.extend(expected[value] for value in values)
    names, place = numbers.settle()
    assert names == list(expected)
    assert (given if place is None else place[given].tolist()) == wanted


def test_a_log_that_begins_high_or_has_a_large_hole_is_numbered_too():
    numbers = ValueNumbers()
    for first in (9_000_000_000, 10, 9_000_050_000, 9_000_000_000):
        values = [f"{first}-{number}" for number in range(20)]
        found = numbers.of_poll(0, np.arange(first, first + 20), values)
        assert [numbers.settle()[0][number] for number in found] == values


@pytest.mark.parametrize("polled", [[], ["e", "a", "f"], ["e"]])
@pytest.mark.parametrize("sent", [["a", "b", "c", "d"], ["a", "b", "a", "d"], ["a", "a", "b", "a"]])
def test_values_that_were_sent_twice_have_one_number_in_the_end(sent, polled):
    numbers = ValueNumbers()
    found = numbers.of_sends(np.zeros(4, np.int64), np.arange(4), sent)
    found = np.concatenate([found, numbers.of_poll(0, np.arange(len(polled)), polled) if polled else found[:0]])
    names, place = numbers.settle()
    assert names == list(dict.fromkeys(sent + polled))
    assert (place is None) == (len(set(sent)) == 4)
    assert [names[number] for number in (found if place is None else place[found])] == sent + polled
