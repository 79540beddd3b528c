"""A checker must be able to fail: every invariant is shown a bug of the kind it is there for, and objects.

Each mutant names the seed that shows it today. Any change to the product makes another run of that seed, so the search
goes on with the seeds behind it: when this file becomes slow, name newer seeds. In the runs on the way other
invariants, or the product's own assertions, may be the first to object.
"""

import logging
from collections.abc import Iterator

import pytest

import tests.simulation.observer
from tests.simulation import mutants
from tests.simulation.invariants import (
    ALL,
    AcknowledgedWrites,
    CommitRule,
    CommittedIsDurable,
    ElectionSafety,
    FlushedSurvives,
    LeaderAppendOnly,
    LeaderCompleteness,
    LogMatching,
    LogStarts,
    MatchesAreTrue,
    OffsetsAreDense,
    Positions,
    ReadsAgree,
    ReadsAreLinearizable,
    SnapshotsAreTrue,
    StateMachineSafety,
    Truncation,
    VisibleSurvives,
    VoteOnce,
)
from tests.simulation.run import RunResult, run_seed

_RUN_SECONDS = 40.0
_SEEDS_MAX = 150

# The mutant, the invariant that must object to it and in which words, the first seed.
_KILLED = (
    (mutants.vote_is_not_synced, Positions, "voted in a later term before its restart", 11),
    (mutants.follower_forgets_its_vote, VoteOnce, "its vote of term", 24),
    (mutants.votes_go_to_any_log, LeaderCompleteness, "without the committed entry", 19),
    (mutants.one_vote_elects, ElectionSafety, "was elected in term", 13),
    (mutants.new_leader_cuts_its_tail, LeaderAppendOnly, "has removed entries", 2),
    (mutants.written_counts_as_fsynced, MatchesAreTrue, "as fsynced on", 1),
    (mutants.foreign_tail_counts, MatchesAreTrue, "as fsynced on", 24),
    (mutants.minority_commits, CommittedIsDurable, "is committed but fsynced on nodes", 1),
    (mutants.old_terms_commit_by_counting, CommitRule, "has moved commit to", 3),
    (mutants.visible_is_what_the_leader_wrote, VisibleSurvives, "which consumers could see", 23),
    (mutants.quorum_write_is_answered_at_once, AcknowledgedWrites, "acks=all was answered", 3),
    (mutants.leader_ack_precedes_the_write, AcknowledgedWrites, "answered but is not in its log", 1),
    (mutants.last_batch_of_a_round_is_written_twice, AcknowledgedWrites, "are one write", 6),
    (mutants.fetch_is_not_bounded, ReadsAgree, "was read before with another content", 23),
    (mutants.follower_commits_what_was_not_matched, StateMachineSafety, "commits Ghost", 7),
    (mutants.follower_commits_before_its_fsync, Positions, "the order of the positions", 1),
    (mutants.previous_term_is_not_compared, StateMachineSafety, "commits Ghost", 13),
    (mutants.conflict_is_kept, LogMatching, "differs from the same entry elsewhere", 7),
    (mutants.every_request_cuts, Truncation, "is truncated", 23),
    (mutants.cut_goes_below_commit, Truncation, "the committed entry", 4),
    (mutants.fsync_is_skipped, FlushedSurvives, "it had flushed up to", 7),
    (mutants.tail_is_trusted_after_a_kill, FlushedSurvives, "it had flushed up to", 3),
    (mutants.offsets_count_batches, OffsetsAreDense, "begins at offset", 1),
    (mutants.each_replica_deletes_by_itself, LogStarts, "nobody has asked for its start", 2),
    (mutants.snapshot_is_later_than_its_state, SnapshotsAreTrue, "a snapshot as of entry", 1),
)

# Seeds that break these are rare: a leader must be deposed without knowing it, and asked just then.
# `scenarios/test_linearizable_reads.py` makes it so, and shows its mutants to the invariant.
_KILLED_BY_A_SCENARIO = {ReadsAreLinearizable}

# The mutant, what the product itself raises where no invariant is asked, and where, the first seed.
# Assertions and named errors are part of the product: these bugs do not need an invariant to be found.
_STOPPED_BY_THE_PRODUCT = (
    (mutants.vote_rule_ignores_the_vote, "raft/replica_state.py", "AssertionError", 24),
    (mutants.follower_commits_before_its_fsync, "raft/replica_state.py", "AssertionError", 1),
    (mutants.fsync_is_skipped, "storage/log_recovery.py", "MismatchedLogError", 22),
)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _cause(result: RunResult) -> str:
    """Return the traceback of what ended a run first; it is printed before what was raised from it. Empty: nothing."""
    if result.error is None:
        return ""
    text = "\n".join(result.lines)
    return text[text.rindex("Traceback (most recent call last)", 0, _first_end(text)) : _first_end(text)]


def _first_end(text: str) -> int:
    end = text.find("The above exception was the direct cause")
    return end if end >= 0 else len(text)


def _search(first_seed: int, *wanted: str) -> None:
    """Run seeds until one ends with a cause that says all that is wanted."""
    seen = []
    for seed in range(first_seed, first_seed + _SEEDS_MAX):
        result = run_seed(seed, _RUN_SECONDS)
        cause = _cause(result)
        if cause and all(word in cause for word in wanted):
            return
        seen.append(f"seed {seed}: {(result.error or 'nothing').splitlines()[0]}")
    pytest.fail("\n".join([f"no run was ended by {wanted}:", *seen]))


@pytest.mark.parametrize(
    ("mutant", "invariant", "words", "first_seed"), _KILLED, ids=[mutant.__name__ for mutant, *_ in _KILLED]
)
def test_an_invariant_objects(monkeypatch, mutant, invariant, words, first_seed) -> None:
    mutant(monkeypatch)
    _search(first_seed, f"InvariantBrokenError: {invariant.__name__}: ", words)


@pytest.mark.parametrize(
    ("mutant", "module", "error", "first_seed"),
    _STOPPED_BY_THE_PRODUCT,
    ids=[mutant.__name__ for mutant, *_ in _STOPPED_BY_THE_PRODUCT],
)
def test_the_product_stops_by_itself_where_no_invariant_is_asked(
    monkeypatch, mutant, module, error, first_seed
) -> None:
    monkeypatch.setattr(tests.simulation.observer, "ALL", ())
    mutant(monkeypatch)
    _search(first_seed, module, error)


def test_no_invariant_objects_to_the_same_seeds_without_a_mutant() -> None:
    for seed in sorted({first_seed for *_, first_seed in (*_KILLED, *_STOPPED_BY_THE_PRODUCT)}):
        assert run_seed(seed, _RUN_SECONDS).error is None, f"seed {seed}"


def test_every_invariant_has_been_seen_to_fail() -> None:
    assert {invariant for _, invariant, _, _ in _KILLED} | _KILLED_BY_A_SCENARIO == set(ALL)


def test_every_mutant_is_used() -> None:
    planted = {mutant for mutant, *_ in (*_KILLED, *_STOPPED_BY_THE_PRODUCT)}
    assert planted == {each for each in vars(mutants).values() if getattr(each, "__module__", "") == mutants.__name__}
