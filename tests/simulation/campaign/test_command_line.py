"""`python -m tests.simulation` tells what it was asked for, what was broken, and how it was used wrongly."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.campaign.campaign import run_seeds
from tests.simulation.campaign.campaign_part import CampaignPart, CampaignRecorder
from tests.simulation.campaign.campaign_report import add_part
from tests.simulation.campaign.plan import Plan
from tests.simulation.campaign.run import run
from tests.simulation.invariants.invariant import InvariantBrokenError
from tests.simulation.world.observer import Observer
from tests.simulation.world.probes import SOMETIMES

_ROOT = Path(__file__).parents[3]
_SECONDS = 20.0


def _command(*arguments: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    return subprocess.Popen(command, cwd=_ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_a_bug_is_planted_in_the_processes_of_a_campaign_and_named_by_its_summary() -> None:
    bug = "one_broker_opens_no_replicas_of_new_topics"
    # Not every seed places a later topic on the broker that the bug is on.
    found = CampaignRecorder(range(1, 9), _SECONDS, 1, bug)
    with closing(run_seeds(range(1, 9), _SECONDS, jobs=1, bug=bug)) as results:
        for result in results:
            found.add(result)
    assert found.part.failed
    assert all("the replicas have not converged" in text for text in found.part.failed.values()), found.part.failed
    assert bug in found.summary()


def _part(first: int, last: int, **fields: Any) -> CampaignPart:
    return CampaignPart(first, last, 60.0, 2, "0123456789ab", "2 cores", 1.0, 50.0, last - first + 1, 20, **fields)


def test_a_page_is_made_of_parts_and_a_new_one_replaces_those_that_it_overlaps(tmp_path: Path) -> None:
    page = tmp_path / "campaign.md"
    probe = SOMETIMES[0]
    add_part(page, _part(1, 10, hits={probe: 3}, totals={probe: 7, "client send ok": 6_000}))
    add_part(page, _part(21, 30, hits={probe: 2}, totals={probe: 5, "client send ok": 6_000}))
    failed = {17: "LogMatching: they differ", 19: "InvalidRunError: 95 operations, 68 faults"}
    add_part(page, _part(11, 20, failed=failed))
    text = page.read_text()
    assert "| valid runs of 60 virtual seconds | 29 | 5,000 |" in text
    assert "| runs that prove too little, and do not count | 1 | |" in text
    assert "| violations | 1 | 0 |" in text
    assert "- seed 17 failed: LogMatching: they differ" in text
    assert "- seed 19 does not count: InvalidRunError: 95 operations, 68 faults" in text
    assert f"| {probe} | 5 | 12 |" in text
    assert "| client operations per virtual second | 6.7 |" in text
    assert [line.split(" | ")[0] for line in text.splitlines() if "0123456789ab" in line] == [
        *("| 1..10", "| 11..20", "| 21..30"),
    ]
    add_part(page, _part(11, 25))
    assert "| valid runs of 60 virtual seconds | 25 " in page.read_text()
    assert "seed 17" not in page.read_text()


def test_an_invariant_that_objects_to_an_answer_is_what_the_run_ends_with(monkeypatch) -> None:
    def object_to(*_: object) -> None:
        raise InvariantBrokenError("Stubborn: nobody is ever answered.")

    monkeypatch.setattr(Observer, "answered", object_to)
    error = run(Plan(1, _SECONDS)).error
    assert error is not None
    assert error.startswith("InvariantBrokenError: Stubborn: nobody is ever answered.\n")
    assert " at 0x" not in error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--plan", "/nofile"], "cannot read /nofile"),
        (["--plan", "pyproject.toml"], "pyproject.toml is not a plan"),
        (["--seeds", "1..1", "--jobs", "0"], "'0' is not a number of processes"),
        (["--seeds", "1..1", "--report", "x.md", "--bug", "one_vote_elects"], "--bug does not go with --report"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(arguments: list[str], told: str) -> None:
    with _command(*arguments) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert told in errors
    assert "Traceback" not in errors


def test_who_does_not_read_to_the_end_hears_nothing() -> None:
    with _command("--seed", "7", "--seconds", f"{_SECONDS:g}") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141
