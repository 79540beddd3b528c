"""A pass of log compaction in a process of its own: `python -m storage.cleaning_process` (RFC 0022, section 5).

It opens the files itself, reads and writes at most so many bytes per second, and has the memory of its map alone.
"""

import msgspec

from model.error_text import reason_of
from runtime.child import run_child, serve, throttle
from runtime.files import FileSystem, OsFileSystem
from storage.cleaned_output import CleanedSegment
from storage.errors import CorruptLogError
from storage.segment_cleaning import CleaningRequest, CleaningResult, clean

_MODULE = "storage.cleaning_process"


class CleaningJob(msgspec.Struct, frozen=True):
    """What the child is asked for; `bytes_per_second` bounds what it reads and writes, 0: nothing does."""

    request: CleaningRequest
    bytes_per_second: int


class CleaningOutcome(msgspec.Struct, frozen=True):
    """What the child answers: a result, or why there is none."""

    result: CleaningResult | None = None
    damage: str = ""
    damaged_path: str | None = None
    refusal: str = ""
    error_number: int = 0


# As in `index_file`.
_job_decoder = msgspec.msgpack.Decoder(CleaningJob)
_outcome_decoder = msgspec.msgpack.Decoder(CleaningOutcome)


async def clean_in_child(
    files: FileSystem, request: CleaningRequest, bytes_per_second: int, seconds: float
) -> CleaningResult:
    """Make a pass in a child. Where it fails, the caller removes what was written (`LogCompaction.remove_outputs`).

    Raises:
        ChildError: It was killed, or took longer than `seconds`.
        CorruptLogError: A source is damaged.
        OSError: The disk refuses.
    """
    there = files.path_for_others(request.directory)
    moved = _moved(request, there)
    content = msgspec.msgpack.encode(CleaningJob(moved, bytes_per_second))
    outcome = _outcome_decoder.decode(await run_child(_MODULE, content, seconds, (f"{there}/",)))
    if outcome.damage:
        path = None if outcome.damaged_path is None else _in(request.directory, outcome.damaged_path)
        raise CorruptLogError(outcome.damage, path)
    if outcome.result is None:
        raise OSError(outcome.error_number, outcome.refusal)
    return msgspec.structs.replace(
        outcome.result, outputs=[_output_in(request.directory, each) for each in outcome.result.outputs]
    )


def _moved(request: CleaningRequest, directory: str) -> CleaningRequest:
    sources = [msgspec.structs.replace(each, path=_in(directory, each.path)) for each in request.sources]
    return msgspec.structs.replace(request, directory=directory, sources=sources)


def _output_in(directory: str, output: CleanedSegment) -> CleanedSegment:
    return msgspec.structs.replace(
        output,
        path=_in(directory, output.path),
        first_source=_in(directory, output.first_source),
        last_source=_in(directory, output.last_source),
    )


def _in(directory: str, path: str) -> str:
    return f"{directory}/{path.rpartition('/')[2]}"


def answer(content: bytes) -> bytes:
    """In the child: make the pass."""
    job = _job_decoder.decode(content)
    try:
        outcome = CleaningOutcome(clean(OsFileSystem(), job.request, throttle(job.bytes_per_second)))
    except CorruptLogError as error:
        outcome = CleaningOutcome(damage=str(error), damaged_path=error.path)
    except OSError as error:
        outcome = CleaningOutcome(refusal=reason_of(error), error_number=error.errno or 0)
    return msgspec.msgpack.encode(outcome)


if __name__ == "__main__":
    serve(answer)
