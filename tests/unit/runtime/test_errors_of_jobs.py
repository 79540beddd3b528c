"""What a job that fails has had in memory goes with its error, not with the next collection of cycles."""

import asyncio
import gc
import weakref

import pytest

from model.record_codec import CorruptRecordsError, unpack
from runtime.workers import Pool, ThreadWorkers


class Large:
    """Stands for a buffer."""


@pytest.mark.parametrize("pool", Pool)
def test_what_a_failed_job_had_is_free_once_its_error_is_forgotten(pool: Pool) -> None:
    async def test() -> None:
        workers, known = ThreadWorkers(), list[weakref.ref[Large]]()

        def job() -> None:
            large = Large()
            known.append(weakref.ref(large))
            raise OSError("it fails")

        async def fail() -> None:
            with pytest.raises(OSError, match="it fails"):
                await workers.run(pool, job)

        gc.disable()
        try:
            await fail()
            # The thread forgets its job once it waits for the next one.
            await workers.run(pool, lambda: None)
            # The loop forgets the callbacks of the job, too.
            await asyncio.sleep(0)
            assert [each() for each in known] == [None]
        finally:
            gc.enable()
            workers.close()

    asyncio.run(test())


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_an_error_of_unpacking_keeps_no_buffer(codec: int) -> None:
    with pytest.raises(CorruptRecordsError) as caught:
        unpack(codec, memoryview(b"garbage"))
    trace = caught.value.__cause__.__traceback__ if caught.value.__cause__ else None
    assert trace is not None
    while trace is not None:
        assert not [each for each in trace.tb_frame.f_locals.values() if isinstance(each, bytearray)]
        trace = trace.tb_next
