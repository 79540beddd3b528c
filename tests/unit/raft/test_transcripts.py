"""Batcher, follower and elections as stories: each file in `transcripts` is replayed and compared word by word."""

import os
from pathlib import Path

import pytest

from tests.unit.raft.transcript import replay

_FOLDER = Path(__file__).parent / "transcripts"
_REWRITE = os.environ.get("REWRITE_TRANSCRIPTS") == "1"


@pytest.mark.parametrize("path", sorted(_FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_a_transcript_reads_as_written(path: Path) -> None:
    told = path.read_text()
    printed = replay(told)
    if _REWRITE and printed != told:
        path.write_text(printed)
        pytest.skip("rewritten: read the difference")
    assert printed.splitlines() == told.splitlines()


def test_a_transcript_prints_the_same_every_time() -> None:
    for path in sorted(_FOLDER.glob("*.txt")):
        assert replay(path.read_text()) == replay(path.read_text()), path.stem
