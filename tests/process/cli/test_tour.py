"""The console blocks of README and docs/tour.md, typed into terminals: what they say is what is printed."""

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from raftka.chaos.network_namespace import NetworkNamespaceError, own_network
from tests.needed_tools import needs_tools
from tests.process.broker_processes import eventually
from tests.process.kcat import needs_kcat
from tests.process.terminals import (
    DEADLINE_SECONDS,
    ROOT,
    Said,
    Terminal,
    a_newcomers_folder,
    console_blocks,
    is_as_printed,
)

pytestmark = pytest.mark.process

OpenTerminal = Callable[[], Terminal]

TOUR = ROOT / "docs" / "tour.md"
WORDS = "9. Count words over a kill"
PROGRAM = ROOT / "docs" / "word-count" / "WordCount.java"
FETCH_SECONDS = 400.0


@pytest.fixture
def open_terminal(tmp_path: Path) -> Iterator[OpenTerminal]:
    """Return what opens a terminal in a newcomer's checkout, on a machine where nothing else listens."""
    with ExitStack() as stack:
        try:
            stack.enter_context(own_network())
        except NetworkNamespaceError as error:
            pytest.skip(str(error))
        folder = stack.enter_context(a_newcomers_folder(tmp_path))

        def opened() -> Terminal:
            terminal = Terminal(folder, home=folder)
            stack.callback(terminal.close)
            return terminal

        yield opened


def rows(said: Said) -> list[list[str]]:
    """Return the rows of partitions that a command has printed."""
    return [line.split() for line in said.lines if re.match(r"(trades +|\s+)\d", line)]


def coordinator(said: Said) -> str:
    (found,) = [line.split()[1] for line in said.lines if line.startswith("coordinator: ")]
    return found


def members(said: Said) -> dict[str, str]:
    """Return who has each partition, by what `raftka group describe` has printed."""
    return {row[1]: row[5] for row in rows(said)}


def leaders(said: Said) -> dict[str, str]:
    return {row[0]: row[1] for row in rows(said)}


@pytest.mark.parametrize(
    ("page", "printed", "is_same"),
    [
        (["NODE  LAG", "   1   17", "..."], ["NODE LAG", "12 3", "13 3", "end"], True),
        (["a rdkafka-0006cd66-1285 1,2,3"], ["a rdkafka-1f 2,3"], True),
        (["broker 1 (controller)", "broker 2"], ["broker 1", "broker 2 (controller)"], True),
        (["healthy"], ["NOT HEALTHY"], False),
        (["healthy"], ["healthy", "and more"], False),
        (["healthy", "brokers: 1"], ["healthy"], False),
        (["1 record written"], ["1 record lost"], False),
        ([], ["a warning"], False),
    ],
)
def test_what_is_printed_is_a_pages_but_for_numbers_and_columns(
    page: list[str], printed: list[str], is_same: bool
) -> None:
    assert is_as_printed(page, printed) is is_same


@needs_kcat
def test_the_readme_is_as_it_was_typed(open_terminal: OpenTerminal) -> None:
    page = console_blocks(ROOT / "README.md")
    first, describe, kill, kcat = page["A tour in 60 seconds"]
    terminal = open_terminal()
    terminal.follow(first)
    (described,) = terminal.follow(describe)
    leader = leaders(Said(described.lines[:2], 0))["0"]
    assert [row[2:] for row in rows(Said(described.lines[3:], 0))] == [["2"] * 4] * 3
    killed, health, *_ = terminal.follow(kill, {"kill 3": f"kill {leader}", "restart 3": f"restart {leader}"})
    assert killed.lines == [f"broker {leader} is killed; start it again: raftka dev restart {leader}"]
    assert f"missing brokers: {leader}" in health.lines
    assert health.code == 1
    terminal.follow(kcat)
    (line,) = page["The command line"]
    terminal.follow(line)
    (examples,) = console_blocks(ROOT / "docs" / "record-formats.md")["Record formats"]
    assert [terminal.run(each.command).code for each in examples] == [0] * len(examples)
    assert terminal.run("raftka dev stop").lines == ["stopped"]


def test_the_tour_is_as_it_was_typed_and_loses_no_record_with_the_leader(open_terminal: OpenTerminal) -> None:
    page = console_blocks(TOUR)
    del page[WORDS]
    (start,), (topic,), (every, first, second, produce), (before,), (kill, after), *ending = page.values()
    (restart,), (count,), (seek, told), (stop,) = ending
    here, consumer, other, producer = (open_terminal() for _ in range(4))
    here.follow(start)
    here.follow(topic)
    for terminal in (consumer, other, producer):
        terminal.follow(every)
    for terminal, ((command, _),) in ((consumer, first), (other, second), (producer, produce)):
        terminal.type(command)

    def described() -> Said | None:
        (found,) = here.follow(before)
        return found if len(set(members(found).values())) == 2 else None

    group = eventually("each of the two members has partitions", described, DEADLINE_SECONDS)
    dead, owners = coordinator(group), members(group)
    of_dead = {"kill 3": f"kill {dead}", "restart 3": f"restart {dead}"}
    here.follow(kill, of_dead)
    health, _, group = here.follow(after)
    assert health.code == 1
    assert f"missing brokers: {dead}" in health.lines
    eventually("all partitions have another leader", lambda: dead not in leaders(here.follow(after[1:2])[0]).values())
    assert coordinator(group) != dead
    assert members(group) == owners, "no rebalance was needed"
    here.follow(restart, of_dead)

    assert producer.wait().lines == ["300 records written to trades"]
    # A reader of the page sees the last records come before it stops the consumers.
    eventually("none is lost", lambda: here.follow(count)[1].lines == ["300"], DEADLINE_SECONDS)
    for terminal in (consumer, other):
        terminal.press_ctrl_c()
        terminal.wait()
    counted, distinct = here.follow(count)
    assert distinct.lines == ["300"]
    # More would be read twice, which happens seldom and is no broken promise.
    assert int(counted.lines[-1].split()[0]) >= 300

    moved, again = here.follow(seek)
    assert [int(row[2]) - int(row[3]) for row in rows(moved)] == [2] * 4
    assert len(again.lines) == 8
    here.follow(told)
    here.follow(stop)


def test_the_tour_shows_what_its_program_says() -> None:
    (shown,) = re.findall(r"^```java\n(.*?)^```$", TOUR.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert shown in PROGRAM.read_text(encoding="utf-8")


@pytest.fixture
def fetched_jars(tmp_path: Path) -> None:
    """Let Maven fetch what it needs, before the network is one of the test's own."""
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={tmp_path / 'fetched'}"]
    command = ["mvn", "-q", "-B", "-f", str(PROGRAM.with_name("pom.xml")), *goal]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    assert done.returncode == 0, done.stdout[-1000:]


@pytest.fixture
def stopped_at_the_end(open_terminal: OpenTerminal) -> Iterator[None]:
    """Stop the brokers, also after a failure."""
    page = console_blocks(TOUR)
    terminal = open_terminal()
    yield
    for step in (page["1. Three brokers"][0][0], *page["10. Clean up"][0]):
        if not step.command.startswith("raftka dev --detach"):
            terminal.run(step.command)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("fetched_jars", "stopped_at_the_end")
@needs_tools("java", "javac", "mvn")
def test_the_tours_application_counts_each_word_once_over_the_kill_of_a_leader(
    open_terminal: OpenTerminal, tmp_path: Path
) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    page = console_blocks(TOUR)
    (begin,), (every, *_) = page["1. Three brokers"], page["3. A producer, and two consumers in a group"]
    topics, ((count, counts),), ((produce, _),), describe, kill, read = page[WORDS]
    here, application, producer = (open_terminal() for _ in range(3))
    here.follow(begin)
    for terminal in (application, producer):
        terminal.follow(every)
    here.follow(topics, {"mvn -q": "mvn -q -o"})
    application.type(count)
    application.read_until(re.compile(re.escape(counts[0])))
    producer.type(produce)

    (described,) = here.follow(describe)
    leader = leaders(described)["0"]
    killed, _ = here.follow(kill, {"kill 2": f"kill {leader}", "restart 2": f"restart {leader}"})
    assert killed.lines == [f"broker {leader} is killed; start it again: raftka dev restart {leader}"]

    assert producer.wait().lines == ["300 records written to lines"]
    eventually("all are counted", lambda: here.follow(read[:1]) and here.run(read[1].command).lines == ["300"])
    _, each, distinct, last = here.follow(read)
    assert (each.lines, distinct.lines, last.lines) == (["300"], ["300"], ["fox 300"])
    application.press_ctrl_c()
    application.wait()
