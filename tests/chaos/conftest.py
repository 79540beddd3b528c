"""A cluster that a run finds, instead of making one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.broker_processes import ClusterMaker


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[ClusterMaker]:
    """Return a maker of clusters for one test."""
    maker = ClusterMaker(tmp_path)
    try:
        yield maker
    finally:
        maker.stop()
