"""Terminals in which a page's console blocks are typed, and what they print compared with what the page says."""

import os
import re
import select
import shlex
import subprocess
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.process.command_line import RAFTKA, environment

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 90.0
LOOK_SECONDS = 60.0
# A prompt that tells how the command before it ended.
_PROMPT = "<<$?>>"
_PROMPTED = re.compile(r"<<(\d+)>>\Z")
_HEADING = re.compile(r"#+ (.*)")
_DRAWN_AND_CLEARED = re.compile(r"[^\n]*\x1b\[K")
# Maven sets colours back that it has not set.
_COLOURS_RESET = re.compile(r"\x1b\[0?m")
# What only looks. A reader looks again when it is too early.
_LOOKS = ("raftka topic describe", "raftka group describe", "raftka cluster health", "kcat ")


BASH = ("bash", "--noprofile", "--norc", "--noediting", "-i")


class Step(NamedTuple):
    """A command of a console block, and what the page says that it prints."""

    command: str
    printed: list[str]


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    lines: list[str]
    code: int


def console_blocks(page: Path) -> dict[str, list[list[Step]]]:
    """Return the console blocks of a page by the heading that they stand under."""
    blocks: dict[str, list[list[Step]]] = {}
    title, is_inside, is_console = "", False, False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            is_inside = not is_inside
            is_console = line == "```console"
            if is_console:
                blocks.setdefault(title, []).append([])
        elif is_inside and is_console:
            if line.startswith("$ "):
                blocks[title][-1].append(Step(line[2:], []))
            else:
                blocks[title][-1][-1].printed.append(line)
        elif not is_inside and (heading := _HEADING.fullmatch(line)):
            title = heading[1]
    return blocks


class Terminal:
    """A shell that somebody types into; Ctrl-C reaches what runs in its foreground, as from a keyboard."""

    def __init__(self, folder: Path, home: Path, shell: Sequence[str] = BASH, *, echoes: bool = False) -> None:
        self._home = home
        self._keyboard, screen = os.openpty()
        attributes = termios.tcgetattr(screen)
        # What is printed stays as it is. A shell that edits its line shows it only where the terminal would.
        attributes[1] &= ~termios.OPOST
        if not echoes:
            attributes[3] &= ~termios.ECHO
        termios.tcsetattr(screen, termios.TCSANOW, attributes)
        variables = {"HOME": str(home), "PS1": _PROMPT, "TERM": "dumb", "HISTFILE": "", "COLUMNS": "200", "LC_ALL": "C"}
        self._shell = subprocess.Popen(
            # `setsid --ctty` makes it the terminal of the shell, without which there is no Ctrl-C.
            ["setsid", "--ctty", *shell],
            stdin=screen,
            stdout=screen,
            stderr=screen,
            cwd=folder,
            env=environment() | variables,
        )
        os.close(screen)
        self._seen = ""
        if not echoes:
            self.wait()

    def type(self, line: str) -> None:
        """Type a line, and do not wait for what comes of it."""
        self.press(f"{line}\n")

    def press_ctrl_c(self) -> None:
        self.press("\x03")

    def wait(self, seconds: float = DEADLINE_SECONDS) -> Said:
        """Return what has been printed, once the shell is ready for another command."""
        prompted = self.read_until(_PROMPTED, seconds)
        text = _DRAWN_AND_CLEARED.sub("", self._seen[: prompted.start()]).replace(str(self._home), "~")
        text = _COLOURS_RESET.sub("", text)
        self._seen = ""
        return Said(text.splitlines(), int(prompted[1]))

    def read_until(self, pattern: re.Pattern[str], seconds: float = DEADLINE_SECONDS) -> re.Match[str]:
        """Return where a pattern is in what has been printed since the last prompt, once it is there."""
        deadline = time.monotonic() + seconds
        while not (found := pattern.search(self._seen)):
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern.pattern} within {seconds:.0f} s: {self._seen!r}"
            if select.select([self._keyboard], [], [], left)[0]:
                self._seen += os.read(self._keyboard, 65536).decode(errors="replace")
        return found

    def press(self, keys: str) -> None:
        """Press keys; a line ends with Enter only."""
        os.write(self._keyboard, keys.encode())

    def run(self, command: str) -> Said:
        self.type(command)
        return self.wait()

    def follow(self, steps: Sequence[Step], instead: dict[str, str] | None = None) -> list[Said]:
        """Type commands, each of which must print what the page says; return what they printed.

        Args:
            steps: The commands of a block.
            instead: What is typed in place of words of the page, where these depend on who leads.
        """
        found = []
        for step in steps:
            command = step.command
            for words, others in (instead or {}).items():
                command = command.replace(words, others)
            found.append(self._look(step, command) if command.startswith(_LOOKS) else self.run(command))
            assert is_as_printed(step.printed, found[-1].lines), _difference(step, found[-1])
        return found

    def _look(self, step: Step, command: str) -> Said:
        """Type what only looks until it shows what the page says, or has had its time."""
        deadline = time.monotonic() + LOOK_SECONDS
        said = self.run(command)
        while not is_as_printed(step.printed, said.lines) and time.monotonic() < deadline:
            said = self.run(command)
        return said

    def close(self) -> None:
        """End the shell and what it runs."""
        self.press_ctrl_c()
        os.close(self._keyboard)
        try:
            self._shell.wait(DEADLINE_SECONDS)
        finally:
            self._shell.kill()
            self._shell.wait()


def is_as_printed(page: list[str], found: list[str]) -> bool:
    """Return whether lines are those of a page but for numbers, ids and the width of columns; `...` stands for any."""
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(_shape(line)) + r"\n" for line in page)
    return re.fullmatch(pattern, "".join(f"{_shape(line)}\n" for line in found)) is not None


def _shape(line: str) -> str:
    line = re.sub(r"rdkafka-[0-9a-f-]+", "MEMBER", line)
    # Which partitions had a replica on a broker that is dead depends on who told it, and when.
    line = re.sub(r"^under-replicated: \S+-\d+(, \S+-\d+)*$", "under-replicated: SOME", line)
    # kcat marks one broker of its list, and who that is was decided by an election.
    line = line.removesuffix(" (controller)")
    return " ".join(re.sub(r"\d+(, ?\d+)*", "N", line).split())


def _difference(step: Step, said: Said) -> str:
    return "\n".join([f"$ {step.command}", *said.lines, f"exit code {said.code}; the page has:", *step.printed])


@contextmanager
def a_newcomers_folder(path: Path) -> Iterator[Path]:
    """Have a folder like a checkout after `make run`, in which `raftka` is this one; the cluster there ends with it."""
    commands = path / ".venv" / "bin"
    commands.mkdir(parents=True)
    (commands / "activate").write_text(f"PATH={shlex.quote(str(commands))}:$PATH\n")
    (commands / "raftka").write_text(f'#!/bin/sh\nexec {shlex.join(RAFTKA)} "$@"\n')
    (commands / "raftka").chmod(0o755)
    try:
        yield path
    finally:
        variables = environment() | {"HOME": str(path)}
        subprocess.run([*RAFTKA, "dev", "stop"], capture_output=True, timeout=DEADLINE_SECONDS, env=variables)
