"""Short runs of `raftka chaos` as a person starts it; the long ones are `make chaos`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from raftka.chaos.network_namespace import NetworkNamespaceError, own_network
from raftka.chaos.schedule import NEMESES, Fault, Schedule
from tests.chaos import report
from tests.chaos.matrix import RUNS, command_line
from tests.process.broker_processes import ClusterMaker

pytestmark = pytest.mark.process

_PROGRAM = "import sys; from raftka.cli.main import main; sys.exit(main())"
_SECONDS = 200


def raftka(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, check=False, env=os.environ | environment
    )


@pytest.fixture(scope="module")
def network() -> None:
    try:
        with own_network():
            pass
    except NetworkNamespaceError as error:
        pytest.skip(str(error))


def _summary(out: Path, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    logs = "".join(f"\n{path.name}: {path.read_text()[-2_000:]}" for path in out.glob("logs/*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return dict(json.loads((out / "summary.json").read_text()))


def _check_page(path: Path) -> None:
    """The page is whole, and needs nothing but itself."""
    page = path.read_text()
    for drawn in page.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + drawn.split("</svg>")[0] + "</svg>")
    assert page.count("<svg") == 5
    assert "http" not in page.replace("http.client", "")
    assert "<h1>Valid</h1>" in page


@pytest.mark.usefixtures("network")
def test_a_log_run_with_every_nemesis_is_valid_and_leaves_its_traces(tmp_path: Path):
    out = tmp_path / "run"
    options = ("--nemesis", "kill,pause,partition,disk,transfer", "--minutes", "0.42", "--seed", "3")
    summary = _summary(out, raftka("chaos", *options, "--out", str(out)))
    assert summary["outcome"] == "valid"
    assert summary["operations_per_second"] > 500
    assert {"kill", "pause", "full", "transferred"} <= summary["faults"].keys()
    assert summary["undone"] == []
    assert summary["deaths"] == []
    assert summary["latency_ms"]["p50"] > 0
    _check_page(out / "report.html")
    assert {path.name for path in out.iterdir()} == {
        *("history.jsonl", "schedule.json", "verdict.txt", "verdict.json", "summary.json", "report.html", "logs"),
    }
    assert raftka("check", str(out / "history.jsonl")).returncode == 0


@pytest.mark.long
@pytest.mark.usefixtures("network")
def test_a_bit_is_flipped_as_soon_as_there_is_a_closed_segment(tmp_path: Path):
    """Eight seconds after the start there is none yet."""
    flip = Fault(8.0, 0.0, "disk", "bit-flip", "marked")
    Schedule(5, 40.0, [flip]).save(tmp_path / "schedule.json")
    out = tmp_path / "run"
    options = ("--schedule", str(tmp_path / "schedule.json"), "--rate", "1600", "--out", str(out))
    summary = _summary(out, raftka("chaos", *options))
    assert summary["faults"]["bit-flip"] == 1
    assert summary["undone"] == []


def _one_fault(tmp_path: Path, fault: Fault) -> dict[str, Any]:
    """Run with this fault alone, and return the summary of a valid run."""
    Schedule(5, 20.0, [fault]).save(tmp_path / "schedule.json")
    out = tmp_path / "run"
    summary = _summary(out, raftka("chaos", "--schedule", str(tmp_path / "schedule.json"), "--out", str(out)))
    assert summary["outcome"] == "valid"
    assert summary["faults"][fault.kind] == 1
    assert (summary["undone"], summary["deaths"]) == ([], [])
    return summary


@pytest.mark.parametrize(("kind", "seconds"), [("hang-append", 6.0), ("hang-append-shortly", 1.5)])
@pytest.mark.usefixtures("network")
def test_a_leader_whose_appends_hang_costs_no_acknowledged_record(tmp_path: Path, kind: str, seconds: float):
    _one_fault(tmp_path, Fault(3.0, seconds, "hang-append", kind, "leader"))


@pytest.mark.usefixtures("network")
def test_a_broker_whose_directory_vanishes_ends_and_is_back_with_it(tmp_path: Path):
    summary = _one_fault(tmp_path, Fault(3.0, 7.0, "vanish-directory", "vanish-directory", "leader"))
    assert summary["faults"]["ended without its directory"] == 1


@pytest.mark.usefixtures("network")
def test_brokers_with_few_descriptors_serve_on(tmp_path: Path):
    _one_fault(tmp_path, Fault(3.0, 7.0, "few-descriptors", "few-descriptors", "all"))


@pytest.mark.slow
@pytest.mark.usefixtures("network")
def test_members_change_while_brokers_are_killed_and_no_acknowledged_record_is_lost(tmp_path: Path):
    out = tmp_path / "run"
    options = ("--nemesis", "membership,kill", "--brokers", "5", "--rate", "200", "--minutes", "1", "--seed", "4")
    summary = _summary(out, raftka("chaos", *options, "--out", str(out)))
    assert summary["outcome"] == "valid"
    assert (summary["undone"], summary["deaths"]) == ([], [])
    assert summary["faults"].keys() & NEMESES["membership"].keys()
    assert summary["faults"]["kill"] > 0


@pytest.mark.slow
@pytest.mark.usefixtures("network")
def test_transactions_stay_whole_while_brokers_are_killed(tmp_path: Path):
    out = tmp_path / "run"
    options = ("--workload", "txn", "--nemesis", "kill,transfer", "--minutes", "0.7", "--seed", "2")
    summary = _summary(out, raftka("chaos", *options, "--out", str(out)))
    assert summary["outcome"] == "valid"
    assert summary["undone"] == []
    done = summary["operations"]
    assert done["txn ok"] > 50
    assert done["txn fail"] > 0, "some are aborted"
    assert raftka("check", "--model", "append", str(out / "history.jsonl")).returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("network")
def test_a_table_survives_passes_of_compaction_while_brokers_are_killed(tmp_path: Path):
    out = tmp_path / "run"
    options = ("--workload", "compacted", "--nemesis", "kill,transfer", "--minutes", "0.7", "--seed", "2")
    summary = _summary(out, raftka("chaos", *options, "--out", str(out)))
    assert summary["outcome"] == "valid"
    assert summary["undone"] == []
    assert summary["compaction"]["passes"] > 0
    assert summary["compaction"]["removed"] > 0
    assert raftka("check", str(out / "history.jsonl")).returncode == 0


@pytest.mark.usefixtures("network")
def test_a_register_run_is_linearizable(tmp_path: Path):
    out = tmp_path / "run"
    options = ("--workload", "register", "--nemesis", "kill", "--minutes", "0.3", "--seed", "2")
    summary = _summary(out, raftka("chaos", *options, "--out", str(out)))
    assert summary["outcome"] == "valid"
    assert raftka("check", "--model", "cas", str(out / "history.jsonl")).returncode == 0


def test_a_cluster_that_is_there_is_only_worked_on(make_cluster: ClusterMaker, tmp_path: Path):
    cluster = make_cluster(1)
    cluster.start()
    out = tmp_path / "run"
    arguments = ("--bootstrap", cluster.bootstrap, "--minutes", "0.2", "--rate", "300", "--out", str(out))
    summary = _summary(out, raftka("chaos", *arguments))
    assert summary["faults"] == {}
    assert summary["acked"] > 300


def test_what_cannot_be_done_is_refused_in_one_line(tmp_path: Path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    out = ("--out", str(tmp_path / "run"))
    for arguments, code, words in (
        (("--nemesis", "flood", *out), 64, "--nemesis flood: must be among"),
        (("--nemesis", "partition", "--brokers", "1", *out), 64, "needs more than one broker"),
        (("--nemesis", "transfer", "--workload", "register", *out), 64, "needs a workload on partitions"),
        (("--workload", "compacted", "--acks", "1", *out), 64, "--acks 1: the compacted workload needs --acks all"),
        (
            ("--workload", "compacted", "--bootstrap", "127.0.0.1:1", *out),
            64,
            "--workload compacted: cannot be combined with --bootstrap",
        ),
        (("--minutes", "inf", *out), 64, "--minutes inf: must be a finite number"),
        (("--minutes", "nan", *out), 64, "'--minutes'"),
        (("--rate", "inf", *out), 64, "--rate inf: must be a finite number"),
        (
            ("--nemesis", "kill", "--bootstrap", "127.0.0.1:1", *out),
            64,
            "a cluster given by --bootstrap gets no faults",
        ),
        (("--nemesis", "none", "--out", str(full)), 2, "the folder is not empty"),
        (("--brokers", "2", *out), 64, "--brokers 2: two brokers tolerate no failure"),
        (("--bootstrap", "127.0.0.1:1", *out), 2, "Connection refused (--bootstrap names others)"),
        (("--bootstrap", "nonsense", *out), 2, "nonsense"),
        (("--schedule", str(full / "file"), *out), 2, "is not a schedule"),
        (("--schedule", str(full / "none"), *out), 2, f"raftka: --schedule {full / 'none'}: No such file or directory"),
    ):
        done = raftka("chaos", *arguments)
        assert done.returncode == code, done.stderr
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        # What could not begin leaves nothing, so that the next try finds an empty folder.
        assert list((tmp_path / "run").glob("*")) == []


def test_changes_of_members_that_a_cluster_cannot_have_are_refused_in_one_line(tmp_path: Path):
    out = ("--out", str(tmp_path / "run"))
    for options, words in (
        (("--nemesis", "membership"), "--nemesis membership: needs 4 brokers or more; raise --brokers"),
        (("--nemesis", "member,kill", "--brokers", "4"), "--nemesis member: must be among kill, "),
        (("--nemesis", "membership,none", "--brokers", "4"), "--nemesis none: must be among kill, "),
        (("--nemesis", "membership,disk", "--brokers", "4"), "--nemesis disk: cannot be combined with membership"),
        (("--nemesis", "membership,vanish-directory", "--brokers", "4"), "--nemesis vanish-directory: cannot be"),
        (("--nemesis", "membership", "--brokers", "4", "--acks", "1"), "--nemesis membership: needs --acks all"),
        (("--nemesis", "membership", "--workload", "register"), "--nemesis membership: needs a workload on partitions"),
        (
            ("--nemesis", "membership", "--brokers", "4", "--bootstrap", "127.0.0.1:1"),
            "--nemesis: a cluster given by --bootstrap gets no faults",
        ),
    ):
        _refused(tmp_path, words, *options, *out)


def _refused(tmp_path: Path, words: str, *arguments: str) -> None:
    done = raftka("chaos", *arguments)
    assert done.returncode == 64, done.stderr
    assert words in done.stderr.splitlines()[-1]
    assert list((tmp_path / "run").glob("*")) == []


def test_a_schedule_whose_faults_a_cluster_cannot_have_is_refused_in_one_line(tmp_path: Path):
    """The faults of a schedule are checked like those that are asked for by name."""
    path = tmp_path / "schedule.json"
    out = ("--schedule", str(path), "--out", str(tmp_path / "run"))
    Schedule(5, 20.0, [Fault(8.0, 4.0, "membership", "join", "all")]).save(path)
    for options, words in (
        ((), f"--schedule {path}: nemesis membership needs 4 brokers or more; raise --brokers"),
        (("--brokers", "4", "--acks", "1"), f"--schedule {path}: nemesis membership needs --acks all"),
        (("--brokers", "4", "--workload", "register"), "nemesis membership needs a workload on partitions"),
        (("--bootstrap", "127.0.0.1:1", "--brokers", "4"), f"--schedule {path}: a cluster given by --bootstrap"),
    ):
        _refused(tmp_path, words, *options, *out)
    Schedule(5, 20.0, [Fault(8.0, 4.0, "partition", "halves", "majority")]).save(path)
    _refused(tmp_path, "nemesis partition needs more than one broker", "--brokers", "1", *out)


def test_tools_that_are_missing_are_named(tmp_path: Path):
    done = raftka("chaos", "--out", str(tmp_path / "run"), PATH="")
    assert done.returncode == 2
    assert "apt-get install iproute2 nftables" in done.stderr
    assert list((tmp_path / "run").iterdir()) == []


def test_the_page_of_the_matrix_is_made_from_the_last_summary_of_each_run(tmp_path: Path):
    summary = {
        "command": "raftka chaos",
        "commit": "abc",
        "versions": {"raftka": "1"},
        "machine": {"cores": 2, "memory_gib": 23.5, "kernel": "6.1", "python": "3.11"},
        "workload": "log",
        "outcome": "valid",
        "seconds": 600.0,
        "operations_per_second": 1200.0,
        "acked": 700_000,
        "latency_ms": {"p50": 5.0, "p99": 50.0, "max": 5_000.0},
        "outages": {"longest_seconds": 4.5},
        "faults": {"kill": 3},
        "elections": 12,
        "anomalies": {},
        "allowed": {"lost-write": 7},
        "losses": {"lost": 7, "acked": 1_000, "explained": 7},
        "deaths": [],
        "problems": [],
    }
    for run in RUNS:
        assert command_line(run, 10, 1, "x")[0] == "chaos"
        (tmp_path / run.name).mkdir()
        (tmp_path / run.name / "summary.json").write_text(json.dumps(summary))
    report.write_page(tmp_path, tmp_path / "verification" / "chaos.md")
    # On another day, one run alone.
    (tmp_path / "later" / "kill").mkdir(parents=True)
    later = summary | {"acked": 600_000, "commit": "def"}
    (tmp_path / "later" / "kill" / "summary.json").write_text(json.dumps(later))
    report.write_page(tmp_path / "later", tmp_path / "verification" / "chaos.md")
    page = (tmp_path / "verification" / "chaos.md").read_text()
    assert "| kill | valid | 10.0 | 720,000 | 1,200 | 600,000 | 5 / 50 / 5,000 | 4.5 s | 3 | 12 | def |" in page
    assert "| pause | valid | 10.0 | 720,000 | 1,200 | 700,000 | 5 / 50 / 5,000 | 4.5 s | 3 | 12 | abc |" in page
    assert "7 of 1,000 records acknowledged by a leader alone were lost, 7 of them" in page
