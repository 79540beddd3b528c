"""What a state has to take at once it takes in steps, and snapshots bound what a start has to take."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from model.ids import ConsistencyLevel, Index
from raft.errors import RaftError
from raft.options import RaftOptions
from raft.replica_log_state import ReplicaLogState
from raft.replicate_item import NewEntry, ReplicateResult, ReplicateStages
from storage.entry import Entry, EntryKind
from tests.unit.raft.stage import Stage

STEP = 4
OPTIONS = RaftOptions(state_step_entries=STEP, snapshot_entries=50)


class CountingState:
    """How many commands there are, noted and settled; and how much was done in one turn of the loop."""

    def __init__(self) -> None:
        self.noted: list[Index] = []
        self.settled = 0
        self.settled_index = Index(0)
        self.turn = 0
        self.work: Counter[tuple[str, int]] = Counter()

    def admit(self, entry: NewEntry) -> ReplicateResult | RaftError | None:
        return None

    def note(self, entry: Entry) -> None:
        self.work["note", self.turn] += 1
        if entry.kind is EntryKind.COMMAND and entry.index > self.settled_index:
            self.noted.append(entry.index)

    def truncate(self, first_removed: Index) -> None:
        self.noted = [index for index in self.noted if index < first_removed]

    def commit(self, index: Index) -> None:
        self.work["commit", self.turn] += index - self.settled_index
        self.settled += sum(noted <= index for noted in self.noted)
        self.noted = [noted for noted in self.noted if noted > index]
        self.settled_index = index

    def snapshot(self) -> Iterator[bytes]:
        for _ in range(self.settled):
            self.work["snapshot", self.turn] += 1
            yield b"x"

    def restore(self, state: bytes, applied_index: Index) -> Iterator[None]:
        for _ in state:
            self.work["restore", self.turn] += 1
            yield
        self.noted, self.settled, self.settled_index = [], len(state), applied_index

    def most(self, kind: str) -> int:
        """Return how much of a kind was done at most in one turn."""
        return max((count for (of, _), count in self.work.items() if of == kind), default=0)


class Play:
    """One replica, alone, whose state counts its work per callback of the loop."""

    def __init__(self, stage: Stage, states: list[CountingState]) -> None:
        self.stage = stage
        self._states = states
        loop = stage._machine.loop
        run_entry = loop.run_entry

        def run_counted(entry) -> None:
            if states:
                states[-1].turn += 1
            run_entry(entry)

        loop.run_entry = run_counted

    @property
    def state(self) -> CountingState:
        return self._states[-1]

    @property
    def stm(self) -> ReplicaLogState:
        return self.stage.replica(1)._log_state

    def write(self, count: int) -> ReplicateStages:
        made: list[ReplicateStages] = []
        entries = [NewEntry(EntryKind.COMMAND, b"c", 0)] * count
        self.stage.call(lambda: made.append(self.stage.replica(1).replicate(entries, ConsistencyLevel.QUORUM_ACK)))
        self.stage.advance(0.5)
        assert made[0].replicated.result()
        return made[0]

    def restart(self, *, clean: bool = False) -> None:
        if clean:
            self.stage.run(self.stage.replica(1).save_before_stop())
        self.stage.stop(1)
        self.stage.settle()
        self.stage.run(self.stage._start(self.stage.actors[1]))

    def lead(self) -> None:
        self.stage.elect(1)
        self.stage.advance(0.5)


@pytest.fixture
def start() -> Iterator[Callable[..., Play]]:
    """Make a stage of one node and bring it into office."""
    plays: list[Play] = []

    def make(options: RaftOptions = OPTIONS) -> Play:
        states: list[CountingState] = []

        def state() -> CountingState:
            states.append(CountingState())
            return states[-1]

        stage = Stage(1, options, log_state=state)
        plays.append(Play(stage, states))
        stage.start(1)
        plays[0].lead()
        return plays[0]

    yield make
    for play in plays:
        play.stage.world.close()


def test_a_start_notes_what_it_finds_in_steps(start: Callable[..., Play]) -> None:
    play = start(RaftOptions(state_step_entries=STEP, snapshot_entries=1000))
    play.write(200)
    play.restart()
    assert len(play.state.noted) == 200
    assert play.state.most("note") <= STEP + 1


def test_what_one_commit_settles_is_settled_in_steps(start: Callable[..., Play]) -> None:
    play = start(RaftOptions(state_step_entries=STEP, snapshot_entries=1000))
    play.write(200)
    play.restart()
    play.lead()
    assert play.state.settled == 200
    assert play.state.most("commit") <= STEP + 1


def test_a_snapshot_is_taken_of_one_entry_however_many_steps_it_takes(start: Callable[..., Play]) -> None:
    play = start()
    play.write(30)
    commit = play.stage.replica(1).state.commit_index
    taken = []

    async def take() -> None:
        taken.append(await play.stm.take_snapshot())

    async def both() -> None:
        taking = asyncio.get_running_loop().create_task(take())
        await asyncio.sleep(0)
        replica = play.stage.replica(1)
        await replica.replicate([NewEntry(EntryKind.COMMAND, b"c", 0)] * 20, ConsistencyLevel.QUORUM_ACK).replicated
        await taking

    play.stage.run(both())
    assert (taken[0].applied_index, taken[0].state) == (commit, b"x" * 30)
    assert play.state.most("snapshot") <= 2
    play.stage.advance(0.1)
    assert play.state.settled == 50, "what was committed meanwhile is settled afterwards"


def test_a_snapshot_is_saved_after_so_many_entries_and_bounds_the_replay(start: Callable[..., Play]) -> None:
    play = start()
    for _ in range(12):
        play.write(10)
    log = play.stage.replica(1).log
    assert log.closed_index == 0
    assert log.dirty_index - log.snapshot_index < 60
    play.restart()
    assert len(play.state.noted) < 60
    assert play.state.settled + len(play.state.noted) == 120
    assert play.state.most("restore") <= 2


def test_a_clean_stop_spares_the_next_start_its_replay(start: Callable[..., Play]) -> None:
    play = start(RaftOptions())
    play.write(1500)
    play.restart(clean=True)
    assert play.state.work["note", play.state.turn] == play.state.most("note") == 0
    assert (play.state.settled, play.state.noted) == (1500, [])


def test_a_clean_stop_writes_no_snapshot_of_little(start: Callable[..., Play]) -> None:
    play = start(RaftOptions())
    play.write(100)
    play.restart(clean=True)
    assert play.stage.replica(1).log.snapshot_index == 0
    assert len(play.state.noted) == 100


class HeldState(CountingState):
    """Nothing from `held` on is settled before `free` is called."""

    def __init__(self, held: int) -> None:
        super().__init__()
        self.held = held
        self.is_free = asyncio.Event()

    def settles_until(self, index: Index) -> Index:
        return index if self.is_free.is_set() else Index(min(index, self.held - 1))

    async def wait_until_it_settles(self) -> None:
        if self.settled_index + 1 >= self.held:
            await self.is_free.wait()


def test_what_is_held_is_settled_once_it_is_free_and_a_snapshot_waits_for_it() -> None:
    state = HeldState(7)
    with Stage(1, OPTIONS, log_state=lambda: state) as stage:
        stage.start(1)
        play = Play(stage, [state])
        play.lead()
        play.write(20)
        assert (state.settled_index, stage.replica(1).applied_index) == (6, 6)
        assert stage.replica(1).state.commit_index == 21, "who writes does not wait"
        taken = []

        async def take() -> None:
            taken.append(await play.stm.take_snapshot())

        task = stage._machine.spawn(take())
        stage.advance(0.5)
        assert not task.done()
        play.write(3)
        stage.call(state.is_free.set)
        stage.advance(0.5)
        assert state.settled_index == stage.replica(1).state.commit_index == 24
        assert taken[0].applied_index == 24


def test_a_replica_stops_while_what_it_settles_is_held() -> None:
    state = HeldState(3)
    with Stage(1, OPTIONS, log_state=lambda: state) as stage:
        stage.start(1)
        play = Play(stage, [state])
        play.lead()
        play.write(20)
        stage.stop(1)
        stage.advance(0.5)
        assert "n1 has stopped" in stage.events
        assert state.settled_index == 2
