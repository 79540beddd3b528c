"""What a power loss leaves of RocksDB's WAL, on real files: pages that no fsync covered, in any subset (RFC 0002, 8)."""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest
from rocksdict import AccessType, DBRecoveryMode, Rdict

import storage.rocks_kvstore
from runtime.environment import system_environment
from storage.errors import KvStoreError
from storage.rocks_kvstore import RocksKvStore
from storage.wal_mark import MARK_NAME, list_wals, read_mark

PAGE = 4096
SYNCED, UNSYNCED = 300, 3000


class Machine:
    """A kvstore directory as it was when the power went, and images of what the platter may hold of its WAL."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "kvstore"
        self.lives = 0

    def run(self, scenario: Callable[[RocksKvStore], Awaitable[None]]) -> None:
        async def whole() -> None:
            env = system_environment()
            try:
                store = await RocksKvStore.open(env, str(self.path))
                try:
                    await scenario(store)
                finally:
                    await store.close()
            finally:
                env.workers.close()

        asyncio.run(whole())

    def write(self, prefix: str = "s") -> None:
        """Write synced puts and then thousands without a sync, and take the directory as it is at that moment."""

        async def scenario(store: RocksKvStore) -> None:
            for number in range(SYNCED):
                store.put(f"{prefix}/{number}", b"%d" % number * 9)
                if number % 100 == 99:
                    await store.sync()
            for number in range(UNSYNCED):
                store.put(f"u{prefix}/{number}", b"%d" % number * 9)
            self.lives += 1
            shutil.copytree(self.path, self._taken)

        self.run(scenario)
        files = system_environment().files
        mark = read_mark(files, str(self._taken))
        assert mark is not None
        [number, wal] = list_wals(files, str(self._taken))[-1]
        assert mark.wal == number
        self.synced, self.wal = mark.size, Path(wal).name
        self.content = (self._taken / self.wal).read_bytes()
        self.first, self.last = self.synced // PAGE, (len(self.content) - 1) // PAGE

    @property
    def _taken(self) -> Path:
        return self.folder / f"taken-{self.lives}"

    def restore(self, pages: Iterable[int], size: int | None = None) -> None:
        """Bring back the directory with the synced bytes, and of the others those in `pages`."""
        size = len(self.content) if size is None else size
        image = bytearray(size)
        image[: self.synced] = self.content[: self.synced]
        for page in pages:
            begin, end = max(self.synced, page * PAGE), min((page + 1) * PAGE, size, len(self.content))
            if begin < end:
                image[begin:end] = self.content[begin:end]
        shutil.rmtree(self.path)
        shutil.copytree(self._taken, self.path)
        (self.path / self.wal).write_bytes(image)

    def images(self) -> list[tuple[str, list[int], int]]:
        """Name, pages and size of what a power loss may leave."""
        every, full, rng = range(self.first, self.last + 1), len(self.content), random.Random(7)
        return [
            ("everything", list(every), full),
            ("what was synced", [], self.synced),
            ("half a record more", [self.first], self.synced + 37),
            ("zeros", [], full),
            ("some pages, then zeros", list(every[:9]), full),
            ("a hole of one page", [page for page in every if page != self.first + 4], full),
            ("all but the first page", list(every[1:]), full),
            ("the last page alone", [self.last], full),
            ("cut within", list(every[:9]), (self.first + 9) * PAGE - 100),
            *((f"drawn {number}", [page for page in every if rng.random() < 0.5], full) for number in range(12)),
        ]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.write()
    return made


def _check(machine: Machine, name: str) -> None:
    async def scenario(store: RocksKvStore) -> None:
        assert len(store.items("s/")) == SYNCED, f"{name}: what was synced is there"
        kept = [int(key.removeprefix("us/")) for key, _ in store.items("us/")]
        assert sorted(kept) == list(range(len(kept))), f"{name}: of the others a beginning without a gap"
        store.put("later", b"1")
        await store.sync()

    machine.run(scenario)

    async def later(store: RocksKvStore) -> None:
        assert store.get("later") == b"1"
        assert len(store.items("s/")) == SYNCED

    machine.run(later)


def test_whatever_pages_of_unsynced_votes_are_missing_the_store_opens_with_all_that_was_synced(
    machine: Machine,
) -> None:
    for name, pages, size in machine.images():
        machine.restore(pages, size)
        _check(machine, name)


def test_no_recovery_mode_of_rocksdb_alone_does_what_is_needed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of RFC 0002 section 8: a hole behind the synced bytes, and damage within them."""
    found = {}
    modes = ("tolerate_corrupted_tail_records", "absolute_consistency", "point_in_time", "skip_any_corrupted_record")
    for mode in modes:
        answers = []
        for case in ("hole", "damage"):
            machine.restore([page for page in range(machine.first, machine.last + 1) if page != machine.first + 4])
            if case == "damage":
                machine.restore(range(machine.first, machine.last + 1))
                image = bytearray((machine.path / machine.wal).read_bytes())
                image[machine.synced // 2] ^= 1
                (machine.path / machine.wal).write_bytes(image)
            monkeypatch.setattr(DBRecoveryMode, "tolerate_corrupted_tail_records", getattr(DBRecoveryMode, mode))
            options = storage.rocks_kvstore._options()
            monkeypatch.undo()
            try:
                database = Rdict(str(machine.path), options, access_type=AccessType.read_write())
            except Exception:  # noqa: BLE001 - rocksdict raises nothing else
                answers.append("refused")
                continue
            whole = all(database.get(b"s/%d" % number) is not None for number in range(SYNCED))
            database.close()
            answers.append("all" if whole else "synced votes lost")
        found[mode] = tuple(answers)
    assert found == {
        "tolerate_corrupted_tail_records": ("refused", "refused"),
        "absolute_consistency": ("refused", "refused"),
        "point_in_time": ("all", "synced votes lost"),
        "skip_any_corrupted_record": ("all", "synced votes lost"),
    }


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.999])
def test_damage_in_what_was_synced_is_refused_and_left_as_it_is(machine: Machine, share: float) -> None:
    for pages in ([], range(machine.first, machine.last + 1)):
        machine.restore(pages)
        wal = machine.path / machine.wal
        image = bytearray(wal.read_bytes())
        image[int(machine.synced * share)] ^= 4
        wal.write_bytes(image)
        with pytest.raises(KvStoreError, match=r"damaged at byte .* had been fsynced"):
            _check(machine, "damaged")
        assert wal.read_bytes() == bytes(image)


def test_a_wal_that_ends_before_what_was_synced_is_refused(machine: Machine) -> None:
    for size in (0, machine.synced // 2, machine.synced - 1):
        for zeros in (0, 50_000):
            machine.restore([], machine.synced)
            image = machine.content[:size] + bytes(zeros)
            (machine.path / machine.wal).write_bytes(image)
            with pytest.raises(KvStoreError, match="had been fsynced"):
                _check(machine, "shorter")
            assert (machine.path / machine.wal).read_bytes() == image


def test_a_torn_mark_counts_as_the_one_before(machine: Machine) -> None:
    machine.restore([])
    mark = machine.path / MARK_NAME
    content = bytearray(mark.read_bytes())
    files = system_environment().files
    newest = read_mark(files, str(machine.path))
    assert newest is not None
    content[newest.sequence % 2 * PAGE + 20] ^= 1
    mark.write_bytes(content)
    older = read_mark(files, str(machine.path))
    assert older is not None
    assert (older.sequence, older.wal) == (newest.sequence - 1, newest.wal)
    assert 0 < older.size < newest.size
    _check(machine, "a torn mark")


def test_a_directory_of_an_earlier_version_has_no_mark_and_gets_one(machine: Machine) -> None:
    machine.restore([], machine.synced)
    (machine.path / MARK_NAME).unlink()
    _check(machine, "no mark")
    assert (machine.path / MARK_NAME).exists()


def test_a_second_power_loss_is_survived_as_the_first(machine: Machine) -> None:
    machine.restore([page for page in range(machine.first, machine.last + 1) if page % 2])
    _check(machine, "once")
    machine.write("t")
    machine.restore([page for page in range(machine.first, machine.last + 1) if page % 3])
    _check(machine, "twice")
