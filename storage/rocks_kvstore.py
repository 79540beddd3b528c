"""The kvstore on RocksDB (rocksdict): small unsynced puts on the loop, `flush_wal(sync=True)` on a worker.

rocksdict's `put` holds the GIL, so values are small; `flush_wal` releases it. RocksDB's default recovery mode stops
silently at a damaged WAL record and drops the synced votes behind it; `tolerate_corrupted_tail_records` refuses
instead, and with it a tail that a power loss has torn. `wal_mark` tells the one from the other. Every value carries a
format version and a CRC32C of its own: a vote that reads back wrong is worse than none.
"""

import contextlib
import logging
import re
import struct
from collections.abc import Callable, Iterator

import crc32c
from rocksdict import AccessType, DBRecoveryMode, Options, Rdict

from model.error_text import reason_of
from model.fixed_histogram import FixedHistogram
from runtime.environment import Environment
from runtime.open_files import NO_DESCRIPTORS
from runtime.workers import Pool
from storage.errors import KvStoreError
from storage.kvstore import VALUE_BYTES_MAX, SharedSync
from storage.wal_mark import WalMark, cut, torn_tails

FORMAT_VERSION = 1
_ENVELOPE = struct.Struct(">BI")
_WRITE_BUFFER_BYTES = 4 * 1024 * 1024
_INFO_LOG_FILES = 2
# It would keep all of its tables open: so many hold more than a node ever writes.
_OPEN_TABLES_MAX = 32
# How RocksDB names the data directory (FileSystem.path_for_others).
_HELD = re.compile(r"/proc/self/fd/[0-9]+")
_logger = logging.getLogger("storage")
_LOCK_HINT = "another process uses it"


class RocksKvStore:
    """`KvStore` in one RocksDB directory. Made by `open`."""

    def __init__(self, env: Environment, path: str, database: Rdict, mark: WalMark) -> None:
        self._env = env
        self._path = path
        self._database = database
        self._mark = mark
        self._sync = SharedSync(env, self._flush_wal)
        self._closed = False

    @classmethod
    async def open(cls, env: Environment, path: str) -> "RocksKvStore":
        """Open or make the store in the directory `path`.

        Raises:
            KvStoreError: Damaged, locked or unreadable; nothing was repaired.
        """
        files = env.files

        def job() -> tuple[Rdict, WalMark]:
            files.mkdir(path)
            # Only looked at: another process may have the directory.
            tails = torn_tails(files, path)
            # RocksDB opens files by their path all its life: what it makes goes where ours goes.
            opened = files.path_for_others(path)
            try:
                database = _open_database(opened)
            except Exception as error:
                if not tails or "Corruption" not in reason_of(error):
                    raise
                # RocksDB has taken its lock, found the same, and given the lock back.
                for wal, size in tails:
                    _logger.warning("%s: a torn tail is cut at byte %d: a power loss left it", wal, size)
                cut(files, tails)
                database = _open_database(opened)
            return database, WalMark.open(files, path)

        try:
            database, mark = await env.workers.run(Pool.KVSTORE, job)
        except KvStoreError:
            raise
        except Exception as error:
            raise KvStoreError(f"{path} cannot be opened: {_reason(error)}") from error
        return cls(env, path, database, mark)

    def get(self, key: str) -> bytes | None:
        """Return the newest value."""
        self._check_open()
        try:
            envelope = self._database.get(key.encode())
        except Exception as error:
            raise KvStoreError(f"{self._path}: {key} cannot be read: {_reason(error)}") from error
        return self._opened(key, envelope)

    def put(self, key: str, value: bytes) -> None:
        """Set a value; it is in the WAL's page cache when this returns."""
        self._check_open()
        if len(value) > VALUE_BYTES_MAX:
            raise KvStoreError(f"{key}: a value of {len(value)} bytes is over {VALUE_BYTES_MAX}")
        try:
            self._database.put(key.encode(), _sealed(key, value))
        except Exception as error:
            raise self._sync.fail(error) from error

    def delete(self, key: str) -> None:
        """Remove a key."""
        self._check_open()
        try:
            self._database.delete(key.encode())
        except Exception as error:
            raise self._sync.fail(error) from error

    def items(self, prefix: str) -> list[tuple[str, bytes]]:
        """Return the pairs with that prefix, sorted."""
        self._check_open()
        found = []
        for raw_key, raw_value in self._pairs_from(prefix.encode()):
            key = raw_key.decode()
            if not key.startswith(prefix):
                break
            value = self._opened(key, raw_value)
            assert value is not None
            found.append((key, value))
        return found

    def _pairs_from(self, first: bytes) -> Iterator[tuple[bytes, bytes]]:
        # Rdict.items() ends early at a damaged block and says nothing; an iterator has a status.
        cursor = self._database.iter()
        try:
            cursor.seek(first)
            while cursor.valid():
                key, value = cursor.key(), cursor.value()
                assert isinstance(key, bytes)  # raw mode
                assert isinstance(value, bytes)
                yield key, value
                cursor.next()
            cursor.status()
        except Exception as error:
            raise KvStoreError(f"{self._path} cannot be read: {_reason(error)}") from error

    async def sync(self) -> None:
        """Fsync the WAL on a worker."""
        self._check_open()
        await self._sync.sync()

    @property
    def syncing_since(self) -> float | None:
        """When the oldest sync that has not ended began."""
        return self._sync.syncing_since

    @property
    def sync_durations(self) -> FixedHistogram:
        """How long the syncs took that have passed."""
        return self._sync.durations

    def call_on_failure(self, listener: Callable[[KvStoreError], None]) -> None:
        """Tell `listener` of the first failure."""
        self._sync.on_failed = listener

    async def close(self) -> None:
        """Sync, then close the database.

        Raises:
            KvStoreError: The disk refused; the store is closed all the same.
        """
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(KvStoreError):  # Whoever waited for a sync was told.
            await self._sync.sync()
        await self._sync.close()
        try:
            await self._env.workers.run(Pool.KVSTORE, self._database.close)
        except Exception as error:
            raise KvStoreError(f"{self._path} cannot be closed: {_reason(error)}; what was synced is kept") from error
        finally:
            await self._env.workers.run(Pool.KVSTORE, self._mark.close)

    def _flush_wal(self) -> None:
        """Make the WAL durable, then the mark that says so.

        Raises:
            OSError: No descriptor to look at the WAL: nothing was begun, and the next try may pass.
            KvStoreError: What is durable is not known.
        """
        try:
            covered = self._mark.look()
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                raise
            raise KvStoreError(f"{self._path}: {_reason(error)}") from error
        try:
            self._database.flush_wal(sync=True)
            # Whoever waits may count on what the next start can tell from a torn tail.
            self._mark.write(covered)
        except Exception as error:
            raise KvStoreError(f"{self._path}: {_reason(error)}") from error

    def _opened(self, key: str, envelope: bytes | None) -> bytes | None:
        if envelope is None:
            return None
        if len(envelope) < _ENVELOPE.size:
            raise KvStoreError(f"{self._path}: the value of {key} is cut off")
        version, crc = _ENVELOPE.unpack_from(envelope)
        if version != FORMAT_VERSION:
            raise KvStoreError(f"{self._path}: {key} has format {version}, this version reads {FORMAT_VERSION}")
        value = envelope[_ENVELOPE.size :]
        if crc32c.crc32c(value, crc32c.crc32c(key.encode())) != crc:
            raise KvStoreError(f"{self._path}: the value of {key} is damaged: wrong checksum")
        return value

    def _check_open(self) -> None:
        if self._closed:
            raise KvStoreError(f"{self._path} is closed")
        self._sync.check()


def _sealed(key: str, value: bytes) -> bytes:
    return _ENVELOPE.pack(FORMAT_VERSION, crc32c.crc32c(value, crc32c.crc32c(key.encode()))) + value


def _open_database(path: str) -> Rdict:
    return Rdict(path, _options(), access_type=AccessType.read_write())


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_paranoid_checks(True)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_open_files(_OPEN_TABLES_MAX)
    options.set_keep_log_file_num(_INFO_LOG_FILES)
    return options


def _reason(error: Exception) -> str:
    text = _HELD.sub("data.dir", reason_of(error))
    return f"{_LOCK_HINT} ({text})" if "lock" in text.lower() and "LOCK" in text else text
