"""What holds for every test: examples of hypothesis have no deadline, because nothing here asserts on elapsed time.

`make test` has three workers (pytest-xdist) for two cores. The tests of broker processes go to one of them, because two
clusters at once would only keep each other from the processor; the simulation is in another, because what it does
beside its own tests must begin once, and most of the time that one only waits for processes that take what nobody else
wants. The tests on Spark, which share one JVM, then clients and chaos, which share a cluster, and whatever else there
is go to the lane that is free.

Tests on Spark are skipped where Java is missing. That must not be read over: they are all that proves the pipelines.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.needed_tools import check_tools

settings.register_profile("raftka", deadline=None)
settings.load_profile("raftka")

# In the order in which they are begun.
_LANES = {
    "process": "brokers",
    "simulation": "simulation",
    "pipeline": "spark",
    "chaos": "clients",
    "clients": "clients",
}
_ORDER = ["brokers", "simulation", "spark", "clients"]
# What `make test` leaves to `make test-slow`, beside files with the mark: it takes long, or needs Spark or the site
# generator.
_SLOW = (
    "tests/chaos",
    "tests/clients",
    "tests/docs",
    "tests/packaging",
    "tests/pipeline",
    "tests/process/cli",
    "tests/simulation/known_bugs",
    "tests/unit/pipeline",
)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what -m leaves out: it may need Spark, which `make test` has not installed."""
    path = collection_path.relative_to(config.rootpath).as_posix()
    return True if "not slow" in config.option.markexpr and path in _SLOW else None


@pytest.hookimpl(tryfirst=True)  # Before -m looks at the marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, and begin with what takes longest: what must not be spread."""
    for item in items:
        if item.nodeid.startswith(tuple(f"{folder}/" for folder in _SLOW)):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: _ORDER.index(_lane(item.nodeid)) if _lane(item.nodeid) in _ORDER else len(_ORDER))


@pytest.hookimpl(tryfirst=True)  # Before fixtures, which run the tools.
def pytest_runtest_setup(item: pytest.Item) -> None:
    check_tools(item)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker a lane, or else a file, at a time."""
    from xdist.scheduler import LoadScopeScheduling

    class Lanes(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _lane(nodeid)

    return Lanes(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests on Spark were skipped, and why, in red and above the last line."""
    skipped = [each for each in terminalreporter.stats.get("skipped", []) if _lane(each.nodeid) == "spark"]
    if not skipped:
        return
    terminalreporter.section(f"{len(skipped)} tests on Spark were SKIPPED", red=True, bold=True)
    for reason, number in Counter(each.longrepr[2].removeprefix("Skipped: ") for each in skipped).most_common():
        terminalreporter.line(f"{number}: {reason}", red=True)
    terminalreporter.line("With RAFTKA_NEED_SPARK=1 they fail instead, as they do in .ci/run.", red=True)


def _lane(nodeid: str) -> str:
    """Return the lane of a test; the path of its file where it may go to any."""
    path = nodeid.partition("::")[0]
    return _LANES.get(path.split("/")[1], path)
