"""A log state is asked before an entry gets its place, follows the log, and is rolled back with it."""

from collections.abc import Callable, Iterator

import pytest

from model.ids import ConsistencyLevel, Index
from raft.errors import RaftError, RetryableError, StorageFullError
from raft.options import RaftOptions
from raft.replicate_item import NewEntry, ReplicateResult, ReplicateStages
from storage.entry import Entry, EntryKind
from tests.unit.raft.stage import Stage


class RefusedError(RetryableError):
    """The payload is not welcome."""


class SeenCommands:
    """Knows every command by its payload: a second one is a duplicate, `bad` is refused."""

    def __init__(self) -> None:
        self.noted: dict[bytes, ReplicateResult] = {}
        self.settled = Index(0)

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        if entry.payload == b"bad":
            return RefusedError("bad")
        return self.noted.get(bytes(entry.payload))

    def note(self, entry: Entry) -> None:
        if entry.kind is EntryKind.COMMAND:
            result = ReplicateResult(entry.index, entry.index, entry.base_offset, entry.term)
            self.noted[bytes(entry.payload)] = result

    def truncate(self, first_removed: Index) -> None:
        self.noted = {key: result for key, result in self.noted.items() if result.last_index < first_removed}

    def commit(self, index: Index) -> None:
        assert index >= self.settled
        self.settled = index

    def snapshot(self) -> Iterator[bytes]:
        yield from (key + b"\0" for key, result in self.noted.items() if result.last_index <= self.settled)

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        yield
        self.noted, self.settled = {}, applied_index

    def reset(self) -> None:
        self.noted, self.settled = {}, Index(0)


class Play:
    """A stage whose replicas know the commands they hold."""

    def __init__(self, stage: Stage, states: list[SeenCommands]) -> None:
        self.stage = stage
        self.states = states

    def send(self, node_id: int, payload: bytes, level: ConsistencyLevel) -> ReplicateStages:
        made: list[ReplicateStages] = []
        entry = NewEntry(EntryKind.COMMAND, payload, 0)
        self.stage.call(lambda: made.append(self.stage.replica(node_id).replicate([entry], level)))
        self.stage.settle()
        return made[0]

    def deliver_all(self) -> None:
        self.stage.deliver(lambda _: True)


def indexes(stages: ReplicateStages) -> tuple[int, int]:
    result = stages.replicated.result()
    return result.first_index, result.last_index


@pytest.fixture
def start() -> Iterator[Callable[[int], Play]]:
    """Make a stage of so many nodes and bring node 1 into office."""
    stages: list[Stage] = []

    def make(nodes: int) -> Play:
        states: list[SeenCommands] = []

        def state() -> SeenCommands:
            states.append(SeenCommands())
            return states[-1]

        stages.append(Stage(nodes, RaftOptions(), log_state=state).__enter__())
        for node_id in stages[0].actors:
            stages[0].start(node_id)
        stages[0].elect(1)
        return Play(stages[0], states)

    yield make
    for stage in stages:
        stage.__exit__()


def test_a_duplicate_is_answered_at_its_own_level_on_the_slot_of_the_original(start: Callable[[int], Play]) -> None:
    play = start(3)
    original = play.send(1, b"a", ConsistencyLevel.LEADER_ACK)
    strict = play.send(1, b"a", ConsistencyLevel.QUORUM_ACK)
    relaxed = play.send(1, b"a", ConsistencyLevel.LEADER_ACK)
    other = play.send(1, b"b", ConsistencyLevel.QUORUM_ACK)
    assert indexes(original) == indexes(relaxed) == (2, 2)
    assert not strict.replicated.done()
    assert play.stage.replica(1).log.dirty_index == 3
    play.deliver_all()
    play.stage.advance(1.0)
    play.deliver_all()
    assert indexes(strict) == (2, 2)
    assert indexes(other) == (3, 3)


def test_a_duplicate_within_one_round_shares_the_place(start: Callable[[int], Play]) -> None:
    play = start(1)
    made: list[ReplicateStages] = []

    def send() -> None:
        for payload in (b"a", b"a", b"bad", b"b"):
            entry = NewEntry(EntryKind.COMMAND, payload, 0)
            made.append(play.stage.replica(1).replicate([entry], ConsistencyLevel.QUORUM_ACK))

    play.stage.call(send)
    play.stage.settle()
    assert [indexes(made[at]) for at in (0, 1, 3)] == [(2, 2), (2, 2), (3, 3)]
    assert isinstance(made[2].replicated.exception(), RefusedError)


def test_a_round_of_refused_calls_writes_nothing(start: Callable[[int], Play]) -> None:
    play = start(1)
    refused = play.send(1, b"bad", ConsistencyLevel.QUORUM_ACK)
    assert isinstance(refused.replicated.exception(), RefusedError)
    assert play.stage.replica(1).log.dirty_index == 1


def test_an_append_that_failed_is_forgotten(start: Callable[[int], Play]) -> None:
    play = start(1)
    play.stage.disk.capacity = play.stage.disk.used
    full = play.send(1, b"a", ConsistencyLevel.QUORUM_ACK)
    assert isinstance(full.replicated.exception(), StorageFullError)
    assert play.states[0].noted == {}


def test_followers_note_what_they_write_and_forget_what_is_cut(start: Callable[[int], Play]) -> None:
    play = start(3)
    play.send(1, b"a", ConsistencyLevel.QUORUM_ACK)
    play.deliver_all()
    assert [set(state.noted) for state in play.states] == [{b"a"}] * 3
    play.send(1, b"lost", ConsistencyLevel.LEADER_ACK)
    play.stage.wire.lose(lambda _: True)
    assert [b"lost" in state.noted for state in play.states] == [True, False, False]
    play.stage.elect(2)
    play.stage.advance(1.0)
    play.stage.beat(2)
    play.stage.settle()
    play.deliver_all()
    assert [set(state.noted) for state in play.states] == [{b"a"}] * 3
    assert [state.settled for state in play.states] == [play.stage.replica(1).state.commit_index] * 3


def test_a_restarted_replica_notes_what_is_in_its_log(start: Callable[[int], Play]) -> None:
    play = start(1)
    play.send(1, b"a", ConsistencyLevel.QUORUM_ACK)
    play.stage.stop(1)
    play.stage.settle()
    play.stage.start(1)
    assert set(play.states[1].noted) == {b"a"}
