"""Brokers for the frameworks: each test runs on Apache Kafka first, since what fails there is no fault of Raftka."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ecosystem.brokers import KINDS, Brokers


@pytest.fixture(params=list(KINDS))
def brokers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Brokers]:
    """Return brokers of one test, which it may kill."""
    with KINDS[request.param](tmp_path) as brokers:
        yield brokers
