"""Idempotent producers in the simulated world, and bugs that must be found there."""

import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from cluster.producer_state import ProducerState
from raft.replica_log_state import ReplicaLogState
from raft.replicate_batcher import ReplicateBatcher
from tests.simulation.campaign.idempotent_run import run_idempotent

_SECONDS = 40.0
_SEEDS_MAX = 60


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
def test_every_batch_is_committed_once_and_in_order() -> None:
    totals: Counter[str] = Counter()
    for seed in range(1, 5):
        totals.update(run_idempotent(seed, _SECONDS))
    # What never happens proves nothing.
    for name in ("idempotent acked LEADER_ACK", "idempotent OutOfOrderSequenceError", "data truncated", "elections"):
        assert totals[name], name
    assert totals["idempotent acked QUORUM_ACK"] > totals["idempotent batches committed"], "no duplicate was answered"


# -- planted bugs ---------------------------------------------------------------------------------------------------


def duplicate_is_answered_at_once(patch: pytest.MonkeyPatch) -> None:
    """Counterexample 8: the cache says success, whatever becomes of the original."""
    judge = ReplicateBatcher._judge

    def answer(batcher: ReplicateBatcher, item):
        refusal = judge(batcher, item)
        if item.result is not None:
            item.succeed()
        return refusal

    patch.setattr(ReplicateBatcher, "_judge", answer)


def followers_note_nothing(patch: pytest.MonkeyPatch) -> None:
    """Only the leader, who admits, knows the producers: its successor begins with an empty table."""
    admit, note = ProducerState.admit, ProducerState.note

    def remember(state: ProducerState, entry):
        state.admitted = entry.payload
        return admit(state, entry)

    def note_admitted(state: ProducerState, entry) -> None:
        if entry.payload is getattr(state, "admitted", None):
            note(state, entry)

    patch.setattr(ProducerState, "admit", remember)
    patch.setattr(ProducerState, "note", note_admitted)


def restart_knows_nobody(patch: pytest.MonkeyPatch) -> None:
    """The entries behind the snapshot are not noted at the start."""
    note, replay = ProducerState.note, ReplicaLogState.replay

    async def replay_unheard(stm: ReplicaLogState) -> None:
        stm._state.is_deaf = True
        await replay(stm)
        stm._state.is_deaf = False

    def note_unless_deaf(state: ProducerState, entry) -> None:
        if not state.is_deaf:
            note(state, entry)

    patch.setattr(ReplicaLogState, "replay", replay_unheard)
    patch.setattr(ProducerState, "note", note_unless_deaf)


def unknown_producers_begin_anywhere(patch: pytest.MonkeyPatch) -> None:
    """As in Kafka: a batch that overtakes the first one becomes the beginning."""
    patch.setattr(ProducerState, "_judge_unknown", lambda state, batch: None)


@pytest.mark.parametrize(
    ("mutant", "words", "first_seed"),
    [
        (duplicate_is_answered_at_once, "AcknowledgedWrites", 1),
        (followers_note_nothing, "ProducersInOrder", 1),
        (restart_knows_nobody, "ProducersInOrder", 3),
        (unknown_producers_begin_anywhere, "ProducersInOrder", 1),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, mutant, words, first_seed) -> None:
    mutant(monkeypatch)
    seen = []
    for seed in range(first_seed, first_seed + _SEEDS_MAX):
        try:
            run_idempotent(seed, _SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever objects is looked at
            text = f"{error!r} {error.__cause__!r}"
            if words in text:
                return
            seen.append(f"seed {seed}: {text[:300]}")
    pytest.fail("\n".join([f"no run was ended by {words}:", *seen]))
