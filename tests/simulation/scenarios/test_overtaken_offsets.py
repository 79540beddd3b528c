"""RFC 0021, section 8: an offset that is pending in a transaction does not replace one that was committed behind it.

Schedule 8 of section 9 of the design: pending at 10, a plain commit of 12, then the transaction commits.
"""

import pytest

import tests.simulation.world.observer
from cluster.groups.offsets_topic import OFFSETS_TOPIC
from cluster.groups.pending_offsets import PendingOffsets
from tests.simulation.clients.kafka_transactors import TransactionRules
from tests.simulation.clients.kafka_transformers import SimTransformer
from tests.simulation.scenarios.transaction_story import ALL_INTENTS, Intent, TransactionStory
from tests.simulation.world.cluster import TOPIC

_FORMER, _PENDING, _NEWER = 5, 10, 12


class _Committer(SimTransformer):
    """A producer that commits an offset of a group of its own, in a transaction and outside of it."""

    def __init__(self, story: TransactionStory, intent: Intent, *, is_overtaken: bool) -> None:
        name = f"{intent.name}-{is_overtaken}"
        super().__init__(
            story.wire(name),
            story.recorder,
            story.world.stream(f"kafka/{name}"),
            TOPIC,
            1,
            transactional_id=name,
            rules=TransactionRules(2, 600_000),
            is_raising=intent.is_raising,
            sent=story.cluster.history.sent,
            pace=1.0,
            source=0,
            sink=0,
            group=name,
        )
        self.intent = intent
        self.is_overtaken = is_overtaken
        self.found: int | None = None

    async def begin(self) -> bool:
        """Commit an offset, one in a transaction, and perhaps a newer one outside of it."""
        await self._init()
        self.name = self.begin_line()
        if not (await self.commit_plainly(_FORMER) and await self.commit_offset(_PENDING)):
            return False
        if not self.is_raising:
            await self.add(0)
        is_whole = await self.append(self.name, 0, 1)
        return is_whole and (not self.is_overtaken or await self.commit_plainly(_NEWER))

    async def close(self) -> bool:
        """End the transaction, and look what is committed as soon as nothing is pending."""
        await self.end(self.name, is_commit=self.intent.is_commit)
        self.found = await self.committed()
        return True

    @property
    def expected(self) -> int:
        """What is committed in the end."""
        if self.is_overtaken:
            return _NEWER
        return _PENDING if self.intent.is_commit else _FORMER


def _pending_offsets_are_overtaken() -> None:
    """The partition of the groups gets another leader while they are pending."""
    with TransactionStory(276, partitions=1) as story:
        committers = [_Committer(story, intent, is_overtaken=each) for intent in ALL_INTENTS for each in (False, True)]
        story.do(committers, _Committer.begin)
        groups = story.topic_group(OFFSETS_TOPIC)
        former = story.cluster.leader_of(groups)
        assert former is not None
        story.move(groups, next(node_id for node_id in story.world.nodes if node_id != former))
        assert len(story.open_at(former, groups)) == len(committers)
        story.do(committers, _Committer.close)
        found = {each.identity: each.found for each in committers}
        assert found == {each.identity: each.expected for each in committers}, "an old offset has replaced a newer one"
        assert story.counts["a pending offset overtaken"] == len(ALL_INTENTS)
        story.finish()


def test_an_offset_that_was_committed_behind_a_pending_one_stays() -> None:
    _pending_offsets_are_overtaken()


def test_a_newer_offset_is_replaced_by_an_old_one_if_nobody_compares_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PendingOffsets, "is_overtaken", lambda *_: False)
    monkeypatch.setattr(tests.simulation.world.observer, "ALL", ())
    with pytest.raises(AssertionError, match="an old offset has replaced a newer one"):
        _pending_offsets_are_overtaken()
