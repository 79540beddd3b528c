"""`make run` without make: the story ends well, and leaves nothing behind however it ends."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from raftka.dev.cluster_file import ClusterFolder
from tests.process.broker_processes import eventually
from tests.process.command_line import started

pytestmark = pytest.mark.process

STORY = [sys.executable, "-m", "raftka.story"]
SECONDS = 120.0


def test_the_story_is_short_and_keeps_its_promises(tmp_path: Path) -> None:
    told = subprocess.run(
        STORY, capture_output=True, text=True, timeout=SECONDS, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    assert told.returncode == 0, told.stdout + told.stderr
    lines = told.stdout.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100
    assert re.search(r"acks=all +\d+ acknowledged, +0 missing", told.stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_story_that_is_stopped_says_so_and_stops_its_brokers(number: signal.Signals, tmp_path: Path) -> None:
    with started(STORY, TMPDIR=str(tmp_path)) as process:
        folder = eventually("the story makes a cluster", lambda: next(tmp_path.glob("*/cluster.json"), None))
        state = ClusterFolder(folder.parent).load_existing()
        process.send_signal(number)
        _, complaint = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert complaint == f"\nThe story ends here: {number.name} stopped it\n"
    assert not any(broker.is_alive for broker in state.brokers)
    assert list(tmp_path.iterdir()) == []
