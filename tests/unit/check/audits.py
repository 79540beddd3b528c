"""A history judged twice: by the checker, and in pieces as an audit does; both must say the same to the letter."""

import json
import tempfile
from pathlib import Path

import msgspec

import raftka.check.history_file
import raftka.pipeline.audit.parts
from raftka.check.errors import HistoryError
from raftka.check.levels import Level
from raftka.check.log.builder import read_log_history
from raftka.check.log.model import check_log
from raftka.check.register_history import read_register_history
from raftka.check.register_model import CONFIGURATIONS_MAX, check_register
from raftka.pipeline.audit.cluster import InProcess
from raftka.pipeline.audit.logs import Sizes, audit_log
from raftka.pipeline.audit.parts import HistoryFile
from raftka.pipeline.audit.registers import audit_registers

# Every partition with more than one operation is judged in blocks of so many offsets.
BLOCKS = Sizes(chunks=1, operations=1, giant=1, per_send=0, offsets=3)
BUNDLES = Sizes(chunks=2, operations=40, giant=10**9)


def text_of(lines):
    return "".join(json.dumps(line) + "\n" for line in lines)


def outcome(judge):
    """Return a verdict as JSON, or why there is none."""
    try:
        return msgspec.json.encode(judge()).decode()
    except (HistoryError, OSError) as error:
        return f"{type(error).__name__}: {error}"


def same_of_log(texts, sizes, level=Level.QUORUM_ACK, chunk_bytes=300):
    """Return what the checker says of files, after an audit has said the same."""
    with tempfile.TemporaryDirectory() as name, small_chunks(chunk_bytes):
        files = written(Path(name), texts)
        scratch = Path(name) / "scratch"
        scratch.mkdir()
        said = outcome(lambda: check_log(read_log_history(files), level))
        audited = outcome(lambda: audit_log([HistoryFile(each) for each in files], level, InProcess(), scratch, sizes))
        assert audited == said, "\n".join(each or "no file" for each in texts)
    return said


def same_of_registers(texts, model="cas", configurations_max=CONFIGURATIONS_MAX, chunk_bytes=300, chunks=1):
    with tempfile.TemporaryDirectory() as name, small_chunks(chunk_bytes):
        files = written(Path(name), texts)
        scratch = Path(name) / "scratch"
        scratch.mkdir()
        said = outcome(
            lambda: check_register(read_register_history(files, has_cas=model == "cas"), model, configurations_max)
        )
        found = [HistoryFile(each) for each in files]
        audited = outcome(
            lambda: audit_registers(found, model, InProcess(), scratch, chunks, configurations_max=configurations_max)
        )
        assert audited == said, "\n".join(each or "no file" for each in texts)
    return said


def written(folder, texts):
    """Write one file per text; None is a file that is not there."""
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"history-{number}")
        if text is not None:
            files[-1].write_bytes(text if isinstance(text, bytes) else text.encode())
    return files


class small_chunks:  # noqa: N801
    """Chunks of so many bytes, so that a small file has several parts."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.former = raftka.check.history_file.CHUNK_BYTES
        self.set(self.size)

    def __exit__(self, *_):
        self.set(self.former)

    def set(self, size):
        raftka.check.history_file.CHUNK_BYTES = raftka.pipeline.audit.parts.CHUNK_BYTES = size
