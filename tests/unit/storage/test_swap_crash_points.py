"""A pass and its swaps that are cut short after any effect leave the log by key as it was (RFC 0022, 5 and 6)."""

import asyncio

import pytest
from log_harness import steps
from test_log_compaction import all_of, check, limits
from test_log_crash_points import SEEDS, Life, cut_short, new_disk
from test_segment_cleaning import Original, Step, written

from model.control_batch import MarkerType
from model.ids import Index
from storage.errors import DamagedLogError
from storage.log import Log
from storage.segment_cleaning import clean


def overwritten() -> Original:
    """Three keys that are written, deleted and aborted, in two terms."""
    steps_of_keys = [
        *(Step(((b"a", b"1" * 60),)), Step(((b"b", b"1" * 60),)), Step(((b"a", b"2" * 60), (b"c", b"1"))), Step()),
        *(Step(((b"b", None),)), Step(((b"a", b"3" * 60),), new_term=True), Step(((b"c", b"2"),), producer=1)),
        *(Step(producer=1, ends=MarkerType.ABORT), Step(((b"b", b"9"),)), Step(((b"a", b"4" * 60),))),
        *(Step(((b"b", b"7"),)), Step(((b"d", b"1"),)), Step(((b"d", b"2"),))),
    ]
    return written(steps_of_keys, [False])


async def filled(life: Life, original: Original) -> Log:
    log = await life.log()
    await log.append(original.entries)
    await log.flush()
    await steps(60)
    return log


async def compacted(life: Life, log: Log) -> None:
    request = await log.compaction.request(limits(log, int(log.dirty_index), joins=True, segment_bytes=600))
    assert request is not None
    await log.compaction.swap(clean(life, request))  # type: ignore[arg-type]
    await steps(60)


def cut_short_anywhere(seed: int | None) -> int:
    """Cut a pass and its swaps short after each effect, also by a power loss; return how many effects there are."""
    original = overwritten()

    async def scenario() -> int:
        effects = 0
        while True:
            disk = new_disk(seed)
            life = Life(disk)
            log = await filled(life, original)
            assert len(log._segments) > 4
            life.left = effects
            try:
                was_cut = await cut_short(compacted(life, log))
            except OSError:
                # The pass is no part of the log: its owner gives it up.
                was_cut = True
            # Nobody hears of an index file that is not written.
            was_cut = was_cut or life.left == 0
            if seed is not None:
                disk.lose_power()
            for _ in range(2):
                again = await Life(disk).log(known_index=Index(len(original.entries)))
                check(again, await all_of(again), original)
                assert again.compacted_index in (0, again.closed_index)
                # A power loss may take the names of index files: that lowers the clean index, and no more.
                assert again.compaction.clean_index <= again.closed_index
                assert was_cut or seed is not None or again.compaction.clean_index == again.closed_index
                assert not [name for name in life.files.listdir(again._context.directory) if "swap" in name]
                await again.close()
            if not was_cut:
                return effects
            effects += 1

    return asyncio.run(scenario())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_pass_cut_short_anywhere_leaves_the_log_by_key(seed: int | None) -> None:
    assert cut_short_anywhere(seed) >= 20


def test_damage_of_a_cleaned_segment_is_found_at_a_start() -> None:
    original = overwritten()

    async def scenario() -> None:
        disk = new_disk(None)
        life = Life(disk)
        log = await filled(life, original)
        await compacted(life, log)
        path = log._segments[0].path
        await log.close()
        assert disk.rot(path, 60)
        await (await Life(disk).log()).close()
        with pytest.raises(DamagedLogError):
            await Life(disk).log(rescan=frozenset({path}))

    asyncio.run(scenario())
