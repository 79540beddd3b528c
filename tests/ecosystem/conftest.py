"""Brokers for the frameworks: each test runs on Apache Kafka first, since what fails there is no fault of Raftka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ecosystem import framework_runs
from tests.ecosystem.brokers import KINDS, Brokers


@pytest.fixture(params=list(KINDS))
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    """Return brokers of one test, which it may kill."""
    with KINDS[request.param](tmp_path) as brokers:
        yield brokers


def pytest_sessionstart() -> None:
    """Note the commit before the run, because one may be made during it."""
    if framework_runs.is_wanted():
        framework_runs.this_run()


_called: dict[str, float] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record a test that has passed, its fixtures' ends included."""
    if not framework_runs.is_wanted() or not report.nodeid.startswith("tests/ecosystem/"):
        return
    if report.when == "call" and report.passed:
        _called[report.nodeid] = report.duration
    if report.when == "teardown" and report.passed and report.nodeid in _called:
        seconds = _called.pop(report.nodeid)
        framework_runs.note(framework_runs.RECORDS, report.nodeid, seconds, framework_runs.this_run())
