"""What holds for every test: examples of hypothesis have no deadline, because nothing here asserts on elapsed time.

`make test` runs two lanes (pytest-xdist). All tests that start brokers are in one of them, because two clusters at once
would only keep each other from the processor; the simulation is in the other, because what it does beside its own tests
must begin once. The tests on Spark, which share one JVM, and whatever else there is go to the lane that is free.
"""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("raftka", deadline=None)
settings.load_profile("raftka")

_LANES = {
    "chaos": "brokers",
    "clients": "brokers",
    "pipeline": "spark",
    "process": "brokers",
    "simulation": "simulation",
}
_TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Name the lane of every test that may not go to any."""
    for item in items:
        lane = _LANES.get(item.path.relative_to(_TESTS).parts[0])
        if lane is not None:
            item.add_marker(pytest.mark.xdist_group(lane))
