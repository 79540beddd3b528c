"""The checker against a naive one, on histories that are sound and on such that are not."""

import random

import msgspec
import pytest
from generated import history
from oracle import anomalies, is_whole, says_anything
from stories import judge

from raftka.check.errors import HistoryError
from raftka.check.operations import Line

_decoder = msgspec.json.Decoder(Line)
_SEEDS = 400


def compare(seeds):
    seen = set()
    for seed in seeds:
        lines = history(random.Random(seed))
        if not any(each["f"] == "send" for each in lines):
            continue
        operations = [_decoder.decode(msgspec.json.encode(each)) for each in lines]
        if not says_anything(lines):
            with pytest.raises(HistoryError, match="no answer says anything"):
                judge(operations)
            seen.add("nothing")
            continue
        if not is_whole(lines):
            with pytest.raises(HistoryError, match="below its own high watermark"):
                judge(operations)
            seen.add("not whole")
            continue
        verdict = judge(operations)
        found, expected = {each.name for each in verdict.findings}, anomalies(lines)
        assert found == expected, f"seed {seed}: {found ^ expected}\n" + "\n".join(map(str, lines))
        seen |= expected or {"valid"}
    return seen


@pytest.mark.parametrize("part", range(10))
def test_the_verdict_is_that_of_the_definitions(part):
    compare(range(part * _SEEDS, (part + 1) * _SEEDS))


@pytest.mark.long
def test_the_verdict_is_that_of_the_definitions_on_many_more():
    seen = compare(range(100_000, 140_000))
    # Every anomaly is among them, and histories without any.
    assert len(seen) >= 20
