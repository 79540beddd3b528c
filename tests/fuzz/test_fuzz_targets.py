"""Everything that reads bytes, against samples, corpus, damage and noise: a value or a named error."""

import importlib
import pkgutil
import random
import struct
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cluster
import raft
import raftka.broker
from rpc.methods import Method
from tests.fuzz import loops
from tests.fuzz.corpus_files import CORPUS, FILES_MAX, add, file_name, read_corpus, replace
from tests.fuzz.damage import EDITS, EXTREMES, KINDS, damaged, random_edits
from tests.fuzz.link_samples import refused_handshakes
from tests.fuzz.link_targets import rpc_methods
from tests.fuzz.loops import Outcome, run_at_random
from tests.fuzz.runs import PAGE, read_runs, record_run, render_page
from tests.fuzz.targets import TARGETS, Target

EVERY_TARGET = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
DAMAGED_EXAMPLES, NOISE_EXAMPLES = 300, 150
# Positions of one sample at which a length is replaced, for the bound on memory.
POSITIONS = 24
CORPUS_BYTES_MAX = 1_000_000

ALWAYS_THE_SAME = settings(derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@EVERY_TARGET
def test_every_sample_is_taken(target: Target) -> None:
    samples = target.samples()
    assert len(samples) >= 2
    for sample in samples:
        target.read(sample)


@EVERY_TARGET
def test_samples_are_always_the_same(target: Target) -> None:
    assert target.samples() == target.samples()


@EVERY_TARGET
def test_the_corpus_meets_values_and_named_errors(target: Target) -> None:
    for data in read_corpus(target.name):
        target(data)


@EVERY_TARGET
def test_any_bytes_meet_a_value_or_a_named_error(target: Target) -> None:
    @settings(ALWAYS_THE_SAME, max_examples=NOISE_EXAMPLES)
    @given(st.binary(max_size=200))
    def test(data: bytes) -> None:
        target(data)

    test()


@EVERY_TARGET
def test_damaged_samples_meet_a_value_or_a_named_error(target: Target) -> None:
    inputs = [*target.samples(), *read_corpus(target.name)]

    @settings(ALWAYS_THE_SAME, max_examples=DAMAGED_EXAMPLES)
    @given(st.sampled_from(inputs), EDITS, st.sampled_from(inputs))
    def test(data: bytes, edits: list, other: bytes) -> None:
        target(damaged(data, edits, other))

    test()


@EVERY_TARGET
def test_no_length_makes_a_target_take_memory_that_its_input_does_not_stand_for(target: Target) -> None:
    rng = random.Random(target.name)
    samples = [sample for sample in target.samples() if len(sample) < 4096]
    for sample in target.samples():
        target(sample)
    for sample in rng.sample(samples, min(4, len(samples))):
        places = rng.sample(range(len(sample)), min(POSITIONS, len(sample)))
        inputs = [sample[:at] + huge + sample[at + len(huge) :] for at in places for huge in rng.sample(EXTREMES, 3)]
        tracemalloc.start()
        try:
            for data in inputs:
                target(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak <= target.memory_bytes + 64 * len(sample)


def test_bodies_of_all_methods_of_links_are_fed() -> None:
    """Else a reader of strangers' bytes would be left out without a word."""
    for package in (cluster, raft, raftka.broker):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            found = vars(importlib.import_module(module.name)).values()
            assert {each for each in found if isinstance(each, Method)} <= set(rpc_methods()), module.name


def test_handshakes_end_with_a_named_error() -> None:
    target = TARGETS["rpc_handshake"]
    for data in refused_handshakes():
        with pytest.raises(target.errors):
            target.read(data)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_edit_changes_bytes(kind: str) -> None:
    rng = random.Random(1)
    edits = [edit for _ in range(300) for edit in random_edits(rng) if edit.kind == kind]
    data = bytes(range(100))
    assert sum(edit.apply(data, b"other") != data for edit in edits) > len(edits) // 2 > 10


def test_a_planted_bug_is_found_by_damage(tmp_path, monkeypatch) -> None:
    def planted(data: bytes) -> None:
        """A reader that trusts a length."""
        (length,) = struct.unpack_from(">H", data) if len(data) >= 2 else (0,)
        if length > len(data):
            raise ValueError("named")
        if length:
            data[2 + length - 1]

    monkeypatch.setattr(loops, "FOUND", tmp_path)
    ticks = iter(range(100_000))
    target = Target(planted, (ValueError,), lambda: [struct.pack(">H", 5) + b"abcde"])
    outcome = run_at_random(target, 2_000, 1, now=lambda: next(ticks))
    assert [what.partition(" ")[0] for what in outcome.findings] == ["IndexError"]
    (path,) = outcome.findings.values()
    with pytest.raises(IndexError):
        target(path.read_bytes())


def test_a_corpus_keeps_what_there_is_room_for_and_each_once(tmp_path) -> None:
    replace("t", [b"old"], tmp_path)
    assert replace("t", [b"b" * 40_000, b"c" * 40_001, b"a", b"a"], tmp_path) == 2
    assert sorted(read_corpus("t", tmp_path), key=len) == [b"a", b"b" * 40_000]


def test_a_run_adds_to_a_corpus_and_takes_nothing_away(tmp_path) -> None:
    assert add("t", [b"old", b"o" * 40_000], tmp_path) == 2
    assert add("t", [b"old", b"n" * 40_000, b"new"], tmp_path) == 1
    assert sorted(read_corpus("t", tmp_path), key=len) == [b"new", b"old", b"o" * 40_000]
    assert add("t", [bytes([number]) for number in range(FILES_MAX)], tmp_path) == FILES_MAX - 3
    assert {b"new", b"old"} < set(read_corpus("t", tmp_path))


def test_the_longest_run_of_a_target_is_the_one_that_is_shown(tmp_path) -> None:
    target, path = TARGETS["history"], tmp_path / "runs.json"
    assert record_run(target, Outcome("atheris", 500, 60.0), path)
    assert not record_run(target, Outcome("random", 900, 12.0), path)
    assert read_runs(path)["history"]["executions"] == 500
    assert record_run(target, Outcome("atheris", 700, 90.0), path)
    assert read_runs(path)["history"]["executions"] == 700


def test_the_corpus_is_small_and_named_by_content() -> None:
    paths = list(CORPUS.rglob("*.bin"))
    assert sum(path.stat().st_size for path in paths) < CORPUS_BYTES_MAX
    assert {path.parent.name for path in paths} <= set(TARGETS)
    assert [path.name for path in paths if path.name != file_name(path.read_bytes())] == []


def test_the_page_says_what_the_runs_came_to() -> None:
    assert PAGE.read_text() == render_page(), "python -m tests.fuzz --report"
