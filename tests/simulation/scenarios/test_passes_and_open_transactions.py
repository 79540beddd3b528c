"""RFC 0022, section 3: a pass goes by the transactions that are open as of the commit index.

Schedule 10 of section 9 of the design: a leader that is cut off has appended an ABORT marker, and a pass runs. Then the
marker is truncated. Its transaction is open again, and the next leader ends it, in the same way or in the other one.
"""

from dataclasses import replace

import pytest

from cluster import compaction_limits, partition
from cluster.partition import Partition
from cluster.transactions.marker_writer import EndingTransaction, MarkerResult, WriteMarkersReply, WriteMarkersRequest
from model.control_batch import NO_PREPARE
from model.ids import Index
from raft.consensus import Consensus
from storage.log_compaction import CleaningLimits
from tests.simulation.invariants import RemovedRecordsAreSuperseded
from tests.simulation.known_bugs.transactions import stable_offset_passes_what_has_a_marker
from tests.simulation.scenarios.compacted_story import (
    KEYS,
    POLICY,
    SEGMENT_BYTES,
    ask,
    keyed,
    make_pass,
    objection,
    put,
    record_of,
)
from tests.simulation.scenarios.scenario import QUORUM, Scenario
from tests.simulation.world.replica_view import content_key
from tests.unit.model.record_batches import TRANSACTIONAL, build_batch

_PRODUCER = 1000
_KEY = KEYS[0]
_IN_TRANSACTION = b"in a transaction" * 40
_RECORD = record_of(_KEY, _IN_TRANSACTION)
_SUPERSEDED = "what was aborted has superseded a record"
_LOST = "a record of a committed transaction is gone"


class _Story(Scenario):
    """Three brokers, and one partition with a transaction; the script coordinates it, and ends it."""

    def begin(self) -> Index:
        """Begin a transaction that overwrites a key, as a leader does whose coordinator has said yes; return where."""
        batch = bytearray(
            build_batch(
                b"",
                payload=record_of(_KEY, _IN_TRANSACTION),
                timestamps=[1000],
                attributes=TRANSACTIONAL,
                producer_id=_PRODUCER,
                producer_epoch=0,
                base_sequence=0,
            )
        )
        self.cluster.history.sent.add(content_key(batch))
        here = self.partition(self.leader)
        assert here.transactional is not None
        guard = here.transactional.fences.guard(_PRODUCER)
        term = here.leader_epoch

        async def run() -> Index:
            stages = here.produce(batch, 1, QUORUM, None, term, guard=guard, is_durable=True)
            return (await stages.replicated).last_index

        return self.world.run(self.machine(self.leader), run())

    def partition(self, node_id: int) -> Partition:
        found = self.cluster.partition(node_id, self.group)
        assert found is not None
        return found

    def overwrite(self, first: int, count: int, keys: list[bytes]) -> None:
        for number in range(first, first + count):
            value = b"%d" % number + b"plain" * 200
            assert put(self, self.leader, keys[number % len(keys)], value, producer=8, sequence=number).result

    async def end(self, node_id: int, *, is_commit: bool) -> WriteMarkersReply:
        """Ask a leader to end the transaction, as an administrator does: no record of a coordinator says so."""
        place = (str(self.group), int(self.partition(node_id).leader_epoch))
        ending = EndingTransaction(_PRODUCER, 0, is_commit, 0, *NO_PREPARE, [place])
        return await self.cluster.nodes[node_id].markers.writer.write(WriteMarkersRequest([ending], 30.0))

    def cleanable_end(self, node_id: int) -> int:
        """Return up to where a broker would let a pass go now."""
        asked = self.partition(node_id).cleaning_limits(POLICY, 10**15, 1 << 20)
        limits = self.world.run(self.machine(node_id), asked)
        assert limits is not None
        return int(limits.end)

    def is_over(self, node_id: int) -> bool:
        """Whether the transaction is over by all that a replica holds, committed or not."""
        transactional = self.partition(node_id).transactional
        assert transactional is not None
        return transactional.transactions.open_of(_PRODUCER) is None

    def until_closed(self, index: int) -> None:
        """Wait until all replicas have closed the segment of an entry, and a durable state of it."""
        for node_id in self.world.nodes:
            log = self.replica(node_id).log
            self.wait(lambda log=log: log.snapshot_index >= log.closed_index > index)


def _committed(story: Scenario, node_id: int, *, is_commit: bool) -> dict[bytes, bytes]:
    """Return a replica's log by key, as a reader at read_committed sees it once the transaction is over."""
    return {key: record for _, key, record in keyed(story, node_id) if is_commit or record != _RECORD}


def _a_pass_runs_over_an_abort_that_is_truncated(*, is_commit: bool) -> None:
    """`is_commit`: what ends the transaction at last; the marker that is truncated has aborted it."""
    with _Story(76, segment_bytes=SEGMENT_BYTES) as story:
        alone, other = story.leader, story.followers[0]
        story.overwrite(0, 9, KEYS)
        first = story.begin()
        story.overwrite(9, 9, KEYS[1:])
        story.until_closed(first)
        before = _committed(story, other, is_commit=is_commit)
        # The marker comes to one log only.
        story.connect(story.followers)
        log, commit = story.replica(alone).log, story.replica(alone).state.commit_index
        story.machine(alone).spawn(story.end(alone, is_commit=False))
        story.wait(lambda: log.flushed_index > commit)
        assert story.is_over(alone)
        clean_index = make_pass(story, alone)
        assert story.replica(alone).state.commit_index == commit
        story.heal()
        story.elect_into_office(other)
        story.wait(lambda: story.log(alone) == story.log(other))
        assert story.view(alone).now.truncations > 0
        assert not story.is_over(alone)
        assert {story.cleanable_end(node_id) for node_id in story.world.nodes} == {first - 1}
        reply = story.world.run(story.machine(other), story.end(other, is_commit=is_commit))
        assert reply.results == [[MarkerResult.DONE]]
        story.wait(lambda: story.log(alone) == story.log(other) and story.is_over(alone))
        found = _committed(story, alone, is_commit=is_commit)
        assert found == before, _LOST if is_commit else _SUPERSEDED
        assert clean_index == first - 1
        _passes_go_on(story, int(first), is_commit=is_commit)


def _passes_go_on(story: _Story, first: int, *, is_commit: bool) -> None:
    """Now that the transaction is over, passes on all replicas clean its entries too."""
    story.overwrite(18, 9, KEYS[1:])
    story.until_closed(first + 9)
    for _ in range(2):
        assert all(make_pass(story, node_id) > first for node_id in story.world.nodes)
        ask(story)
    for node_id in story.world.nodes:
        held = [record for _, key, record in keyed(story, node_id) if key == _KEY]
        assert len(held) == 1
        assert (held == [_RECORD]) is is_commit
    story.converge()


_ENDS = pytest.mark.parametrize("is_commit", [False, True], ids=["aborted again", "committed"])


@_ENDS
def test_a_pass_over_an_abort_that_is_truncated_cleans_nothing_from_its_transaction_on(*, is_commit: bool) -> None:
    _a_pass_runs_over_an_abort_that_is_truncated(is_commit=is_commit)


def _rows_up_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """ABORT markers count for a pass as soon as the log has them."""

    async def as_far_as_written(consensus: Consensus, *rest: object) -> CleaningLimits | None:
        limits = await compaction_limits.cleaning_limits(consensus, *rest)  # type: ignore[arg-type]
        return None if limits is None else replace(limits, committed_offset=consensus.log.next_offset)

    patch.setattr(partition, "cleaning_limits", as_far_as_written)


def test_an_aborted_record_supersedes_a_committed_one_if_a_pass_goes_by_all_that_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stable_offset_passes_what_has_a_marker(monkeypatch)
    with objection(RemovedRecordsAreSuperseded):
        _a_pass_runs_over_an_abort_that_is_truncated(is_commit=False)


def test_a_committed_transaction_is_lost_if_a_pass_acts_on_an_abort_that_is_not_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stable_offset_passes_what_has_a_marker(monkeypatch)
    _rows_up_to_the_end(monkeypatch)
    with objection(RemovedRecordsAreSuperseded):
        _a_pass_runs_over_an_abort_that_is_truncated(is_commit=True)
