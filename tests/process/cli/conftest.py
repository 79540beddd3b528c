"""A dev cluster for the modules that type the cures of alerts."""

from collections.abc import Iterator

import pytest

from tests.process.alert_cures import NODES, Cures, Operator


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Operator]:
    """Three brokers with the module's OPTIONS, and what its TOPICS have `raftka topic create` make."""
    found = Operator(tmp_path_factory.mktemp("home"))
    try:
        found.start(**request.module.OPTIONS)
        for topic in request.module.TOPICS:
            found.type(f"raftka topic create {topic}")
        found.wait_well()
        yield found
    finally:
        if found.folder.state_path.exists():
            found.wake(*NODES)  # One that is frozen would not hear that it is to end.
            found.type("raftka dev stop")


@pytest.fixture
def cures(operator: Operator, request: pytest.FixtureRequest) -> Iterator[Cures]:
    """The cures of the alerts that `of_alerts` names. The cluster is well before; each command must be typed."""
    operator.wait_well()
    failed = request.session.testsfailed
    found = Cures(tuple(request.param.split("+")), operator)
    yield found
    if request.session.testsfailed == failed:
        assert sorted(found.left) == [], "these were not typed"
