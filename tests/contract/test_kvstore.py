"""What every kvstore promises, and what RocksDB's must do with damaged files (counterexample 33)."""

import asyncio
import errno
import shutil
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rocksdict import DBRecoveryMode, Options

import storage.kvstore
import storage.rocks_kvstore
from runtime.environment import Environment, system_environment
from runtime.workers import Pool
from storage.errors import KvStoreError
from storage.kvstore import VALUE_BYTES_MAX, KvStore, SharedSync
from storage.memory_kvstore import MemoryKvStore
from storage.rocks_kvstore import RocksKvStore
from storage.wal_mark import MARK_NAME, Synced, WalMark

Open = Callable[[], Awaitable[KvStore]]


class Bench:
    """A place for a store, and its environment."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.env: Environment = system_environment()
        self.kind = kind
        self.path = folder / "kvstore"
        self.durable: dict[str, bytes] = {}

    async def open(self) -> KvStore:
        if self.kind == "memory":
            return MemoryKvStore(self.env, self.durable)
        return await RocksKvStore.open(self.env, str(self.path))

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def whole() -> None:
            await scenario()

        try:
            asyncio.run(whole())
        finally:
            self.env.workers.close()


@pytest.fixture(params=["memory", "rocks"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(request.param, tmp_path)


@pytest.fixture
def rocks(tmp_path: Path) -> Bench:
    return Bench("rocks", tmp_path)


def test_the_newest_value_is_read_back_synced_or_not(bench: Bench) -> None:
    async def scenario() -> None:
        store = await bench.open()
        assert store.get("a") is None
        store.put("a", b"1")
        store.put("empty", b"")
        store.put("größe", bytes(range(256)))
        assert (store.get("a"), store.get("empty"), store.get("größe")) == (b"1", b"", bytes(range(256)))
        store.put("a", b"2")
        assert store.get("a") == b"2"
        store.delete("a")
        store.delete("never there")
        assert store.get("a") is None
        await store.close()

    bench.run(scenario)


def test_items_have_the_prefix_and_come_in_the_order_of_the_keys(bench: Bench) -> None:
    async def scenario() -> None:
        store = await bench.open()
        for key in ("b/10", "a", "b/2", "c", "b/", "b", "b/\u00e9", "b/\U0001f600", "b/\ufb01"):
            store.put(key, key.encode())
        store.delete("b/2")
        keys = ["b/", "b/10", "b/\u00e9", "b/\ufb01", "b/\U0001f600"]
        assert store.items("b/") == [(key, key.encode()) for key in keys]
        assert [key for key, _ in store.items("")] == ["a", "b", *keys, "c"]
        assert store.items("d") == []
        await store.close()

    bench.run(scenario)


def test_what_was_synced_is_there_after_a_restart(bench: Bench) -> None:
    async def scenario() -> None:
        store = await bench.open()
        store.put("term", b"7")
        store.put("gone", b"x")
        await store.sync()
        store.delete("gone")
        await store.sync()
        await store.close()
        store = await bench.open()
        assert store.items("") == [("term", b"7")]
        await store.close()

    bench.run(scenario)


def test_a_value_has_a_largest_size(bench: Bench) -> None:
    async def scenario() -> None:
        store = await bench.open()
        store.put("a", b"x" * VALUE_BYTES_MAX)
        with pytest.raises(KvStoreError, match="a value of 65537 bytes is over 65536"):
            store.put("a", b"x" * (VALUE_BYTES_MAX + 1))
        assert store.get("a") == b"x" * VALUE_BYTES_MAX
        await store.sync()
        await store.close()

    bench.run(scenario)


def test_syncs_at_the_same_time_all_return(bench: Bench) -> None:
    async def scenario() -> None:
        store = await bench.open()

        async def vote(number: int) -> None:
            store.put(f"vote/{number}", b"%d" % number)
            await store.sync()

        await asyncio.gather(*[vote(number) for number in range(50)])
        assert len(store.items("vote/")) == 50
        await store.close()

    bench.run(scenario)


def test_a_closed_store_refuses_and_closes_twice(bench: Bench) -> None:
    async def scenario() -> None:
        store = await bench.open()
        store.put("a", b"1")
        waiting = asyncio.get_running_loop().create_task(store.sync())
        await asyncio.sleep(0)
        await store.close()
        await store.close()
        await waiting
        for refused in (
            lambda: store.get("a"),
            lambda: store.put("a", b"2"),
            lambda: store.delete("a"),
            lambda: store.items(""),
        ):
            with pytest.raises(KvStoreError, match="closed"):
                refused()
        with pytest.raises(KvStoreError, match="closed"):
            await store.sync()
        store = await bench.open()
        assert store.get("a") == b"1"
        await store.close()

    bench.run(scenario)


# -- group commit -------------------------------------------------------------------------------------------------


class Job:
    """A sync job that counts; held until `release`; `error` is what it raises."""

    def __init__(self) -> None:
        self.runs = 0
        self.error: Exception | None = None

    def __call__(self) -> None:
        self.runs += 1
        if self.error is not None:
            raise self.error


class HeldWorkers:
    """Jobs wait until they are released."""

    def __init__(self) -> None:
        self.released = asyncio.Event()

    async def run(self, pool: Pool, job: Callable[[], object]) -> object:
        await self.released.wait()
        return job()

    def close(self) -> None:
        pass


def held_sync() -> tuple[SharedSync, Job, HeldWorkers]:
    env, job, workers = system_environment(), Job(), HeldWorkers()
    env.workers.close()
    return SharedSync(Environment(env.wall_clock, env.files, env.network, env.rng, workers), job), job, workers  # type: ignore[arg-type]


def test_a_caller_waits_for_the_first_sync_that_begins_after_its_call() -> None:
    async def scenario() -> None:
        sync, job, workers = held_sync()
        loop = asyncio.get_running_loop()
        first = loop.create_task(sync.sync())
        for _ in range(3):
            await asyncio.sleep(0)
        later = [loop.create_task(sync.sync()) for _ in range(5)]
        await asyncio.sleep(0)
        later[0].cancel()
        workers.released.set()
        await asyncio.gather(first, *later[1:])
        assert job.runs == 2
        await sync.close()

    asyncio.run(scenario())


def test_a_sync_that_ends_in_a_mistake_of_ours_is_told_to_whoever_waits_and_to_the_loop() -> None:
    async def scenario() -> None:
        sync, job, workers = held_sync()
        job.error = AssertionError("a mistake of ours")
        loop = asyncio.get_running_loop()
        reports: list[object] = []
        loop.set_exception_handler(lambda _, context: reports.append(context["exception"]))
        first = loop.create_task(sync.sync())
        for _ in range(3):
            await asyncio.sleep(0)
        second = loop.create_task(sync.sync())
        await asyncio.sleep(0)
        workers.released.set()
        async with asyncio.timeout(10):
            results = await asyncio.gather(first, second, return_exceptions=True)
            await sync.close()
        assert all(isinstance(result, KvStoreError) for result in results)
        assert reports == [job.error]

    asyncio.run(scenario())


def test_a_failed_sync_ends_the_store_and_nothing_is_tried_again() -> None:
    async def scenario() -> None:
        sync, job, workers = held_sync()
        job.error = OSError("no")
        loop = asyncio.get_running_loop()
        first = loop.create_task(sync.sync())
        for _ in range(3):
            await asyncio.sleep(0)
        second = loop.create_task(sync.sync())
        await asyncio.sleep(0)
        workers.released.set()
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert all(isinstance(result, KvStoreError) for result in results)
        job.error = None
        with pytest.raises(KvStoreError, match="failed: no"):
            await sync.sync()
        assert job.runs == 1
        await sync.close()

    asyncio.run(scenario())


def test_a_sync_without_a_descriptor_waits_for_one_and_the_store_works_on(
    rocks: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage.kvstore, "_DESCRIPTOR_PAUSE", 0.01)
    look, refused = WalMark.look, 0
    stores: list[KvStore] = []
    under_way: list[bool] = []

    def without_descriptors(mark: WalMark) -> Synced:
        nonlocal refused
        if refused < 3:
            refused += 1
            under_way.append(stores[-1].syncing_since is not None)
            raise OSError(errno.EMFILE, "Too many open files")
        return look(mark)

    async def scenario() -> None:
        store = await rocks.open()
        stores.append(store)
        failures: list[KvStoreError] = []
        store.call_on_failure(failures.append)
        monkeypatch.setattr(WalMark, "look", without_descriptors)
        store.put("term", b"1")
        await store.sync()
        assert (refused, failures) == (3, [])
        assert under_way == [True] * 3, "a leader sees how long it waits, and hands over"
        store.put("term", b"2")
        await store.close()
        store = await rocks.open()
        assert store.get("term") == b"2"
        await store.close()

    rocks.run(scenario)


def test_the_first_failure_is_told_once_in_the_step_in_which_the_store_fails() -> None:
    async def scenario() -> None:
        sync, job, workers = held_sync()
        told: list[KvStoreError] = []
        sync.on_failed = told.append
        job.error = OSError("no")
        workers.released.set()
        for _ in range(2):
            with pytest.raises(KvStoreError, match="failed: no"):
                await sync.sync()
        sync.fail(OSError("again"))
        assert [str(error) for error in told] == ["the kvstore failed: no"]
        await sync.close()

    asyncio.run(scenario())


def test_closing_waits_for_the_sync_under_way_and_answers_its_callers() -> None:
    async def scenario() -> None:
        sync, job, workers = held_sync()
        loop = asyncio.get_running_loop()
        caller = loop.create_task(sync.sync())
        for _ in range(3):
            await asyncio.sleep(0)
        closing = loop.create_task(sync.close())
        await asyncio.sleep(0)
        assert not closing.done()
        workers.released.set()
        await closing
        await caller
        assert job.runs == 1

    asyncio.run(scenario())


# -- RocksDB's files ----------------------------------------------------------------------------------------------


async def fill(bench: Bench, count: int) -> None:
    store = await bench.open()
    for number in range(count):
        store.put(f"vote/{number:05}", bytes([number % 251]) * 100)
        if number % 50 == 0:
            await store.sync()
    await store.sync()
    # A copy is what a killed process leaves: closing would move the WAL's content.
    shutil.copytree(bench.path, bench.path.with_name("copy"))
    await store.close()
    bench.path = bench.path.with_name("copy")


def damage(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def test_a_killed_process_finds_what_it_synced(rocks: Bench) -> None:
    async def scenario() -> None:
        await fill(rocks, 300)
        store = await rocks.open()
        assert len(store.items("vote/")) == 300
        await store.close()

    rocks.run(scenario)


def _a_bit_within_the_wal_is_flipped(rocks: Bench, part: float, *, has_mark: bool) -> None:
    async def scenario() -> None:
        await fill(rocks, 300)
        if not has_mark:
            (rocks.path / MARK_NAME).unlink()
        wal = max(rocks.path.glob("*.log"), key=lambda path: path.stat().st_size)
        damage(wal, int(wal.stat().st_size * part) + 3)
        before = wal.read_bytes()
        with pytest.raises(KvStoreError, match="cannot be opened"):
            await rocks.open()
        assert wal.read_bytes() == before

    rocks.run(scenario)


@pytest.mark.parametrize("has_mark", [True, False])
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9])
def test_a_flipped_bit_within_the_wal_is_refused_and_drops_nothing_silently(
    rocks: Bench, part: float, has_mark: bool
) -> None:
    _a_bit_within_the_wal_is_flipped(rocks, part, has_mark=has_mark)


def test_the_default_recovery_mode_opens_a_store_without_what_follows_the_damage(rocks: Bench, monkeypatch) -> None:
    whole = storage.rocks_kvstore._options

    def options() -> Options:
        made = whole()
        made.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
        return made

    monkeypatch.setattr(storage.rocks_kvstore, "_options", options)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        _a_bit_within_the_wal_is_flipped(rocks, 0.5, has_mark=False)


def test_a_wal_of_an_earlier_version_that_was_cut_off_loses_only_its_end(rocks: Bench) -> None:
    async def scenario() -> None:
        await fill(rocks, 300)
        (rocks.path / MARK_NAME).unlink()
        wal = max(rocks.path.glob("*.log"), key=lambda path: path.stat().st_size)
        wal.write_bytes(wal.read_bytes()[:-20])
        store = await rocks.open()
        assert len(store.items("vote/")) == 299
        await store.close()

    rocks.run(scenario)


def test_a_flipped_bit_in_a_table_is_an_error_at_the_read(rocks: Bench) -> None:
    async def scenario() -> None:
        await fill(rocks, 1000)
        # The open moves the WAL's content into a table.
        await (await rocks.open()).close()
        (table,) = rocks.path.glob("*.sst")
        damage(table, table.stat().st_size // 3)
        store = await rocks.open()
        broken = []
        for number in range(1000):
            try:
                assert store.get(f"vote/{number:05}") == bytes([number % 251]) * 100
            except KvStoreError:
                broken.append(number)
        assert 0 < len(broken) < 1000
        with pytest.raises(KvStoreError, match="cannot be read"):
            store.items("vote/")
        assert len(store.items(f"vote/{broken[-1] + 1:05}")) == 1
        await store.close()

    rocks.run(scenario)


@pytest.mark.parametrize(
    ("envelope", "match"),
    [
        (b"", "cut off"),
        (b"\x01\0\0\0", "cut off"),
        (struct.pack(">BI", 2, 0) + b"x", "has format 2, this version reads 1"),
        (struct.pack(">BI", 1, 0) + b"x", "wrong checksum"),
    ],
)
def test_a_value_with_a_wrong_envelope_is_an_error(rocks: Bench, envelope: bytes, match: str) -> None:
    async def scenario() -> None:
        store = await rocks.open()
        assert isinstance(store, RocksKvStore)
        store._database.put(b"vote", envelope)
        with pytest.raises(KvStoreError, match=match):
            store.get("vote")
        with pytest.raises(KvStoreError, match=match):
            store.items("")
        await store.close()

    rocks.run(scenario)


def test_a_value_under_another_key_is_an_error(rocks: Bench) -> None:
    async def scenario() -> None:
        store = await rocks.open()
        assert isinstance(store, RocksKvStore)
        store.put("vote/1", b"x")
        store._database.put(b"vote/2", store._database.get(b"vote/1"))
        with pytest.raises(KvStoreError, match="wrong checksum"):
            store.get("vote/2")
        await store.close()

    rocks.run(scenario)


def test_a_store_in_use_is_refused_by_name(rocks: Bench) -> None:
    async def scenario() -> None:
        store = await rocks.open()
        with pytest.raises(KvStoreError, match="another process uses it"):
            await rocks.open()
        store.put("a", b"1")
        await store.close()

    rocks.run(scenario)


def test_a_path_that_cannot_be_a_store_is_an_error(rocks: Bench) -> None:
    async def scenario() -> None:
        rocks.path.write_bytes(b"a file")
        with pytest.raises(KvStoreError, match="cannot be opened"):
            await rocks.open()

    rocks.run(scenario)
