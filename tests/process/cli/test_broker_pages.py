"""What docs/operations/joining.md and replacing.md let operators type prints what they say, on real brokers."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.command_line import RAFTKA, environment
from tests.process.terminals import ROOT, Step, console_blocks

pytestmark = pytest.mark.process

PAGES = ROOT / "docs" / "operations"
_HEX, _NUMBER = re.compile(r"\b[0-9a-f]{32}\b"), re.compile(r"\b\d+\b")
_SHORT = re.compile(r"\b[0-9a-f]{4}\.\.\.")


@pytest.fixture(name="maker")
def fixture_maker(tmp_path: Path) -> Iterator[ClusterMaker]:
    maker = ClusterMaker(tmp_path)
    try:
        yield maker
    finally:
        maker.stop()


def _blocks(page: str, folder: Path) -> dict[str, list[list[Step]]]:
    """Return the console blocks of a page, also those that stand in lists."""
    copy = folder / page
    copy.write_text(re.sub(r"^ +", "", (PAGES / page).read_text(), flags=re.MULTILINE))
    return console_blocks(copy)


def _run(cluster: BrokerCluster, command: str) -> "subprocess.CompletedProcess[str]":
    alive = ",".join(broker.kafka for broker in cluster.running)
    arguments = [*RAFTKA, *shlex.split(command)[1:]]
    variables = environment() | {"RAFTKA_BROKERS": alive}
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, env=variables)


def _typed(cluster: BrokerCluster, command: str) -> str:
    done = _run(cluster, command)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def _masked(line: str) -> str:
    return _NUMBER.sub("N", _HEX.sub("ID", line))


def _assert_as_shown(lines: list[str], shown: list[str]) -> None:
    """Compare what is printed with what the page says; numbers and names of directories differ, `...` leaves out."""
    assert len(lines) == len(shown), (lines, shown)
    for line, said in zip(lines, shown, strict=True):
        # A page may cut a directory's name short: 51e0... is one.
        pattern = ".*".join(re.escape(_masked(piece)) for piece in _SHORT.sub("ID", said).split("..."))
        assert re.fullmatch(pattern, _masked(line)), (line, said)


def _is_down(cluster: BrokerCluster, node: int) -> bool:
    # Each broker that runs is asked, for a verb may be answered by any of them.
    lists = [_run_at(broker.kafka) for broker in cluster.running]
    rows = [line.split() for text in lists for line in text.splitlines()]
    return all(row[2] == "down" for row in rows if row[0] == str(node))


def _run_at(kafka: str) -> str:
    arguments = [*RAFTKA, "broker", "list", "--brokers", kafka]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=90, env=environment(), check=True).stdout


def test_the_commands_of_joining_print_what_the_page_says(maker: ClusterMaker, tmp_path: Path) -> None:
    blocks = _blocks("joining.md", tmp_path)
    cluster = maker(4)
    for broker in cluster.brokers.values():
        broker.config["seeds"] = cluster.seeds[:3]
    cluster.start()
    ((listed,),) = blocks["Add a broker"]
    rows = [line.split() for line in _typed(cluster, listed.command).splitlines()]
    shown = [line.split() for line in listed.printed]
    assert rows[0][:7] == shown[0][:7]
    assert [row[:4] for row in rows[1:]] == [row[:4] for row in shown[1:]]
    _typed(cluster, "raftka topic create orders -p 4 -r 3")
    _typed(cluster, "raftka topic create scratch -p 1 -r 1")
    _typed(cluster, "raftka partition move scratch/0 --to 2 --wait")
    (drained,) = blocks["Drain a broker"]
    for step in drained:
        assert _typed(cluster, step.command).splitlines() == step.printed
    ((verb,),) = blocks["Verbs"]
    command = verb.command.replace("127.0.0.1:9644", cluster[3].admin)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=90, check=True)
    (printed,) = verb.printed
    for piece in printed.replace('"9c1b...', '"...').split("..."):
        assert piece in done.stdout
    (removed,) = blocks["Remove a broker"]
    for step in removed:
        done = _run(cluster, step.command)
        assert done.returncode == 0, done.stderr
        said = [line for line in step.printed if not line.startswith("raftka: ")]
        _assert_as_shown(done.stdout.splitlines(), said)
        assert bool(done.stderr) <= (said != step.printed), done.stderr
        assert all(line.startswith("raftka: broker 1 waits for ") for line in done.stderr.splitlines())
    cluster[1].terminate()  # As the page says: its own table never learns that it is removed.

    def is_listed_nowhere() -> bool:
        lists = [_run_at(broker.kafka) for broker in cluster.running]
        return all([line.split()[0] for line in text.splitlines()] == ["NODE", "2", "3", "4"] for text in lists)

    eventually("each broker lists the three that are left", is_listed_nowhere)


def test_the_commands_of_replacing_print_what_the_page_says(maker: ClusterMaker, tmp_path: Path) -> None:
    blocks = _blocks("replacing.md", tmp_path)
    cluster = maker(5)
    cluster.start()
    _typed(cluster, "raftka topic create scratch -p 1 -r 1")
    _typed(cluster, "raftka topic create orders -p 5 -r 3")
    _typed(cluster, "raftka partition move scratch/0 --to 3 --wait")
    _typed(cluster, "raftka partition move orders/4 --to 1,2,3 --wait")
    _typed(cluster, "raftka partition move orders/3 --to 1,3,4 --wait")
    _typed(cluster, "raftka partition move orders/0 orders/1 orders/2 --to 1,4,5 --wait")
    for node in (2, 3):
        cluster[node].terminate()
        eventually(f"broker {node} is down", lambda node=node: _is_down(cluster, node) or None)
    (joined,), (refused,) = blocks["What is refused"]
    done = _run(cluster, refused.command)
    assert (done.returncode, done.stdout) == (1, "")
    found = [line for line in done.stderr.splitlines() if "__" not in line]
    _assert_as_shown(sorted(found), sorted(refused.printed))
    cluster.restart([2])
    _typed(cluster, "raftka topic delete scratch")
    ((step,),) = blocks["Replace it"]
    done = _run(cluster, step.command)
    assert done.returncode == 0, done.stderr
    _assert_as_shown(done.stdout.splitlines(), step.printed)
    shutil.rmtree(cluster[3].data_dir)
    cluster.restart([3])
    cluster.wait_caught_up("orders", 4)
    eventually("all is well", lambda: _run(cluster, "raftka cluster health").returncode == 0 or None)
    done = _run(cluster, joined.command)
    assert (done.returncode, done.stdout) == (1, "")
    _assert_as_shown(done.stderr.splitlines(), joined.printed)
