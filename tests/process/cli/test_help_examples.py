"""The examples of all helps, typed one after the other by a newcomer with a cluster of three brokers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from raftka.cli.examples import EXAMPLES
from tests.process.broker_processes import eventually
from tests.process.command_line import FREE_PORTS, SECONDS, DevFolder, environment, raftka

pytestmark = pytest.mark.process

# These look for problems, and the machine of the tests may have some.
MAY_FIND_PROBLEMS = ("raftka doctor", "raftka doctor machine --data-dir .")
# A new leader hears of the others' positions only after a moment, and brokers of a member that has left.
MAY_BE_TOO_EARLY = ("raftka partition elect-preferred", "raftka cluster health", "raftka group delete")
HISTORY = """\
{"f":"send","type":"ok","proc":7,"inv":1000,"ret":2000,"tp":"orders-0","acks":"all","idem":true,"val":"7-1","off":0,\
"epoch":3,"err":null}
{"f":"poll","type":"ok","proc":2,"inv":9000,"ret":9100,"tp":"orders-0","recs":[[0,"7-1"]],"hw":1,"final":true}
"""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevFolder]:
    """Three brokers in the folder that `raftka dev` takes if none is named."""
    folder = DevFolder(tmp_path / "share" / "raftka" / "dev")
    raftka("dev", "--detach", *FREE_PORTS, XDG_DATA_HOME=str(tmp_path / "share"))
    try:
        yield folder
    finally:
        folder.dev("stop")


class Shell:
    """Types a line in a folder, in which `raftka` is on the path and finds the cluster.

    Attributes:
        said: The last line that was typed, how it ended, and what it printed.
    """

    def __init__(self, dev: DevFolder, folder: Path, data_home: Path) -> None:
        self._folder = folder
        self._first = dev.status()[0]
        self._variables = environment() | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "RAFTKA_BROKERS": dev.bootstrap,
            "XDG_DATA_HOME": str(data_home),
        }
        self.said = ""

    def works(self, line: str) -> bool:
        """Return whether it ends as an example should."""
        line = line.replace("127.0.0.1:9092", self._first["kafka"]).replace("127.0.0.1:9644", self._first["admin"])
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            cwd=self._folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        self.said = f"{line}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, self.said
        return done.returncode == 0 or (done.returncode == 1 and line in MAY_FIND_PROBLEMS)


def test_the_examples_of_every_help_work_in_their_order(dev: DevFolder, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "history.jsonl").write_text(HISTORY)
    shell = Shell(dev, home, tmp_path / "share")
    typed = [each.line for examples in EXAMPLES.values() for each in examples if not each.shown_only]
    for line in typed:
        seconds = SECONDS if line.startswith(MAY_BE_TOO_EARLY) else 0.0
        eventually(lambda: shell.said, partial(shell.works, line), seconds)
