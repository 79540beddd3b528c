"""Every transition of a consumer group, as a story; see `group_transcript`."""

import os
from pathlib import Path

import pytest

from tests.unit.kafka_api.groups.group_transcript import replay

_FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_the_group_prints_what_the_transcript_says(path: Path) -> None:
    text = path.read_text()
    printed, _ = replay(text)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(printed)
    else:
        assert printed == text
