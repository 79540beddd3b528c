"""What measurements of compaction make of runs, and the names that a measured broker gives to slices of its loop."""

import asyncio
import functools
import os
import subprocess
import sys

from benchmarks.compare.compacted import KAFKA, RAFTKA, ratio_row
from benchmarks.compare.match import Match
from benchmarks.compare.verdict import Target
from benchmarks.processes import children
from benchmarks.sliced_process import name_of

_LABELS = (*RAFTKA, *KAFKA)


def _match(*rates):
    return Match({label: [{"rate": rate}] if rate else [] for label, rate in zip(_LABELS, rates, strict=True)})


def test_the_value_of_a_row_is_the_ratio_of_a_system_to_itself():
    found = ratio_row(_match(90, 100, 40, 80), "writing", "rate", Target(">=", 0.8, "value"))
    assert (found["raftka"], found["peer"], found["ratio"], found["met"]) == (0.9, 0.5, 1.8, True)


def test_a_refused_compacted_topic_is_named_and_misses_the_target():
    match = _match(0, 100, 40, 80)
    match.refused[RAFTKA.compacted] = "not offered"
    found = ratio_row(match, "writing", "rate", Target(">=", 0.8, "value"))
    assert (found["raftka"], found["refused"], found["met"]) == (None, "not offered", False)


def test_a_slice_of_a_task_has_the_functions_that_the_task_waits_in():
    names = []

    async def inner():
        await asyncio.sleep(0)

    async def outer():
        await inner()

    async def whole():
        loop = asyncio.get_running_loop()
        run = asyncio.Handle._run

        def noted(handle):
            run(handle)
            names.append(name_of(handle))

        asyncio.Handle._run = noted
        try:
            await loop.create_task(outer(), name="compaction/pass")
            loop.call_soon(functools.partial(print, end=""))
            await asyncio.sleep(0)
        finally:
            asyncio.Handle._run = run

    asyncio.run(whole())
    (waiting,) = [name for name in names if name.startswith("compaction/pass: ") and "inner" in name]
    assert [name.rpartition(".")[2] for name in waiting.split(" > ")][:3] == ["outer", "inner", "sleep"]
    assert "print" in names


def test_children_of_a_process_are_seen_by_their_command_lines():
    child = subprocess.Popen([sys.executable, "-c", "input()", "of this test"], stdin=subprocess.PIPE)
    try:
        assert any("of this test" in command for command in children(os.getpid()))
    finally:
        child.kill()
        child.communicate()
    assert not any("of this test" in command for command in children(os.getpid()))
