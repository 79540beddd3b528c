"""`raftka completion` in the shells that it is for: somebody presses Tab."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.broker_processes import BrokerCluster
from tests.process.command_line import Run
from tests.process.terminals import Terminal, a_newcomers_folder

pytestmark = pytest.mark.process

# The prompt is zsh's own, and what zsh writes around it is none of a test's business.
ZSH_SETUP = "PROMPT='<<%?>>'; unsetopt prompt_cr prompt_sp; autoload -U compinit; compinit -u -D"
SHELLS = {
    "bash": (["bash", "--noprofile", "--norc", "-i"], "bind 'set enable-bracketed-paste off'"),
    "zsh": (["zsh", "-f", "-i"], ZSH_SETUP),
}


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path, shared_cluster: BrokerCluster) -> Iterator[Terminal]:
    """Return a shell that has loaded the script, and knows where the cluster is."""
    command, setup = SHELLS[request.param]
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    with a_newcomers_folder(tmp_path) as folder:
        terminal = Terminal(folder, home=folder, shell=command, echoes=True)
        try:
            for line in (
                setup,
                "source .venv/bin/activate",
                f"export RAFTKA_BROKERS={shared_cluster.bootstrap}",
                f"source <(raftka completion {request.param}); echo lo''aded",
            ):
                terminal.type(line)
            terminal.read_until(re.compile("loaded"))
            yield terminal
        finally:
            terminal.close()


def test_tab_completes_commands_and_topics_of_the_cluster(shell: Terminal, run: Run) -> None:
    run("topic", "create", "tabbed-orders", "-p", "1")
    shell.press("raftka topic des\t")
    shell.read_until(re.compile("raftka topic describe "))
    shell.press("tabbed-\t")
    shell.read_until(re.compile("tabbed-orders"))
    shell.press("\n")
    shell.read_until(re.compile(r"PARTITION +LEADER"))
