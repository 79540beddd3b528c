"""Commands of docs/operations, typed into a terminal: the files of the install page, and a copy that is restored."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from raftka.chaos.network_namespace import NetworkNamespaceError, own_network
from tests.needed_tools import needs_tools
from tests.process.terminals import ROOT, Terminal, a_newcomers_folder, console_blocks

pytestmark = pytest.mark.process

PAGES = ROOT / "docs" / "operations"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Return a terminal of a newcomer, on a machine where nothing else listens."""
    with ExitStack() as stack:
        try:
            stack.enter_context(own_network())
        except NetworkNamespaceError as error:
            pytest.skip(str(error))
        folder = stack.enter_context(a_newcomers_folder(tmp_path))
        found = Terminal(folder, home=folder)
        stack.callback(found.close)
        assert found.run("source .venv/bin/activate").code == 0
        yield found


def commands(page: str, title: str, beginning: str) -> list[str]:
    """Return the commands below a heading that begin so."""
    found = [step.command for block in console_blocks(PAGES / page)[title] for step in block]
    return [command for command in found if command.startswith(beginning)]


def test_a_copy_of_a_topic_is_restored_as_the_pages_say(terminal: Terminal) -> None:
    (copy,) = commands("backup.md", "A copy of one topic", "raftka consume")
    (restore,) = console_blocks(PAGES / "restore.md")["From a copy of one topic"]
    for command in ("raftka dev --detach", "raftka topic create orders -p 3", "seq 100 | raftka produce orders", copy):
        assert terminal.run(command).code == 0, command
    terminal.follow(restore)
    assert terminal.run("raftka dev stop").lines == ["stopped"]


@pytest.mark.parametrize(
    ("title", "page"),
    [
        ("The unit", "install.md"),
        ("A container", "install.md"),
        ("Kubernetes", "install.md"),
        ("One broker", "upgrade.md"),
    ],
)
def test_a_page_s_command_that_generates_a_file_writes_it(terminal: Terminal, title: str, page: str) -> None:
    text = (PAGES / page).read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    (command,) = re.findall(r"\$ \S*(raftka generate (?:.*\\\n)*.*)", text)
    # The machine of the test keeps its /etc.
    typed = re.sub(r"\\\n\s*", "", command).replace("/etc/systemd/system/", "./")
    said = terminal.run(f"{typed} && ls -s $(echo {typed} | sed 's/.*--out \\([^ ]*\\).*/\\1/')")
    assert said.code == 0, said.lines
    assert re.match(r"\d+ ", said.lines[-1])


@needs_tools("nft", "unshare")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may ask nft for a check")
def test_the_rules_of_the_exposure_page_load_and_load_again(tmp_path: Path) -> None:
    (rules,) = re.findall(r"```nft\n(.*?)```", (PAGES / "exposure.md").read_text(), re.DOTALL)
    file = tmp_path / "raftka.nft"
    file.write_text(rules)
    checked = subprocess.run(["unshare", "-n", "nft", "-c", "-f", file], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr
    # In a network of its own: this machine's rules stay as they are.
    both = 'nft -f "$0" && nft -f "$0" && nft list table inet raftka'
    loaded = subprocess.run(["unshare", "-n", "sh", "-c", both, file], capture_output=True, text=True, timeout=60)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.count("chain input") == 1
    assert "tcp dport { 9092, 9644, 33145 } counter" in loaded.stdout
