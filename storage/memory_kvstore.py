"""A kvstore in memory over a dict that outlives it, for the simulator: what was not synced dies with the node."""

from collections.abc import Callable

from model.fixed_histogram import FixedHistogram
from runtime.environment import Environment
from storage.errors import KvStoreError
from storage.kvstore import VALUE_BYTES_MAX, SharedSync


class MemoryKvStore:
    """`KvStore` on a dict. `durable` belongs to the node's disk: pass the same one after a restart."""

    def __init__(self, env: Environment, durable: dict[str, bytes]) -> None:
        self._live = dict(durable)
        self._durable = durable
        self._sync = SharedSync(env, self._persist)
        self._closed = False

    def get(self, key: str) -> bytes | None:
        """Return the newest value."""
        self._check_open()
        return self._live.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Set a value in memory."""
        self._check_open()
        if len(value) > VALUE_BYTES_MAX:
            raise KvStoreError(f"{key}: a value of {len(value)} bytes is over {VALUE_BYTES_MAX}")
        self._live[key] = bytes(value)

    def delete(self, key: str) -> None:
        """Remove a key in memory."""
        self._check_open()
        self._live.pop(key, None)

    def items(self, prefix: str) -> list[tuple[str, bytes]]:
        """Return the pairs with that prefix, sorted."""
        self._check_open()
        return sorted((key, value) for key, value in self._live.items() if key.startswith(prefix))

    async def sync(self) -> None:
        """Copy what is in memory to the durable dict, on a worker."""
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
        """Sync and end."""
        if not self._closed:
            self._closed = True
            await self._sync.close()
            self._persist()

    def _check_open(self) -> None:
        if self._closed:
            raise KvStoreError("the kvstore is closed")
        self._sync.check()

    def _persist(self) -> None:
        # The job sees the dict at its own instant: at least what was there at the call of `sync`.
        live = dict(self._live)
        self._durable.clear()
        self._durable.update(live)
