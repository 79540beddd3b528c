"""A compacted topic takes no record without a key: the check of what producers send to it (RFC 0022, section 8)."""

import asyncio
from functools import partial

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.refused_batch import RefusedBatchError
from model.counted import counted
from model.key_scan import KeyScan
from model.record_batch import HEADER_BYTES, BatchHeader
from model.record_codec import CorruptRecordsError, unpack_records
from runtime.workers import HungWorkersError, Pool, Workers

# Of one batch, compressed or not: the largest max.message.bytes.
UNPACKED_BYTES_MAX = 64 * 1024 * 1024
# The answer must not become larger than what was asked.
_NAMED_MAX = 1_000
# For the keys of a compressed batch, whatever the request's own time-out: at acks=1 that does not bound the append.
_SECONDS_MIN = 5.0
# Half a millisecond of the loop.
_RECORDS_PER_SLICE = 1_000


class KeyChecks:
    """One per listener.

    Args:
        workers: Unpack what is compressed, one batch after the other: so what all of them take is bounded.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._unpacking = asyncio.Lock()

    async def check(self, batch: bytearray, header: BatchHeader, deadline: float) -> None:
        """Check the keys of a batch that was checked otherwise, before the loop's time is `deadline`, or within 5 s.

        Raises:
            RefusedBatchError: Records have no key, or cannot be read, or unpack to too much. It names the first 1,000
                records without a key. Or there was no time, or no thread, to look.
        """
        try:
            if header.codec == 0:
                keyless = await _keyless(KeyScan(header, batch, HEADER_BYTES))
            else:
                least = asyncio.get_running_loop().time() + _SECONDS_MIN
                async with asyncio.timeout_at(max(deadline, least)):
                    keyless = await self._keyless_of_packed(batch, header)
        except CorruptRecordsError as error:
            raise RefusedBatchError(ErrorCode.INVALID_RECORD, f"its keys cannot be read: {error}") from error
        except TimeoutError as error:
            raise RefusedBatchError(ErrorCode.REQUEST_TIMED_OUT, "its keys were not looked at in time") from error
        except HungWorkersError as error:
            raise RefusedBatchError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if keyless:
            many = "at least " if len(keyless) >= _NAMED_MAX else ""
            raise RefusedBatchError(
                ErrorCode.INVALID_RECORD,
                f"{many}{counted(len(keyless), 'record')} without a key: a compacted topic takes none",
                keyless[:_NAMED_MAX],
            )

    async def _keyless_of_packed(self, batch: bytearray, header: BatchHeader) -> list[int]:
        async with self._unpacking:
            data = await self._workers.run(Pool.READ, partial(unpack_records, batch, UNPACKED_BYTES_MAX))
            return await _keyless(KeyScan(header, data))


async def _keyless(scan: KeyScan) -> list[int]:
    scan.advance(_RECORDS_PER_SLICE)
    while not scan.is_over and len(scan.keyless) < _NAMED_MAX:
        await asyncio.sleep(0)
        scan.advance(_RECORDS_PER_SLICE)
    return scan.keyless
