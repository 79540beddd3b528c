"""What takes long here is done by processes beside the one of the tests, which ask for what came of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.simulation.campaign.campaign import campaign_in_the_background
from tests.simulation.campaign.plan import RUN_SECONDS
from tests.simulation.campaign.run import RunResult
from tests.simulation.known_bugs.hunt import Hunt
from tests.simulation.known_bugs.hunts import pinned_hunts

_JOBS = 2
_CAMPAIGN = pytest.StashKey[Callable[[], list[RunResult]]]()
_BACKGROUND = pytest.StashKey[ExitStack]()


def pytest_runtestloop(session: pytest.Session) -> None:
    """Begin the campaign before the first test: those that start brokers leave much of the machine's time unused.

    A worker of several (pytest-xdist) begins it with the first test of the simulation, which only one of them gets.
    """
    if not session.config.option.collectonly and not hasattr(session.config, "workerinput"):
        _begin_campaign(session)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """As above; this is called for the tests of this folder alone."""
    _begin_campaign(item.session)


def _begin_campaign(session: pytest.Session) -> None:
    if _BACKGROUND not in session.stash:
        session.stash[_BACKGROUND] = background = ExitStack()
        asking = [each for each in _functions(session) if "campaign" in each.fixturenames]
        if asking:
            seeds = sorted({seed for each in asking for seed in each.callspec.params["seeds"]})
            campaign = campaign_in_the_background(seeds, RUN_SECONDS, _JOBS)
            session.stash[_CAMPAIGN] = background.enter_context(campaign)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End what is still under way, also when the tests were interrupted."""
    if _BACKGROUND in session.stash:
        session.stash[_BACKGROUND].close()


@pytest.fixture(scope="session")
def campaign(request: pytest.FixtureRequest) -> Callable[[], list[RunResult]]:
    """Return what waits for the runs of the campaign, and returns what came of them.

    Its seeds are those of all tests of this session that are going to ask, which have them as the parameter `seeds`.
    """
    return request.session.stash[_CAMPAIGN]


@pytest.fixture(scope="session")
def hunted(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Hunt]]:
    """Return what came of a hunt, by the name of the bug, or of the invariant that finds one alone.

    Those of all tests of this session that are going to ask are under way from the first one on.
    """
    names = [each.callspec.params["name"] for each in _functions(request.session) if "hunted" in each.fixturenames]
    with pinned_hunts(names, _JOBS) as result_of:
        yield result_of


def _functions(session: pytest.Session) -> list[pytest.Function]:
    return [each for each in session.items if isinstance(each, pytest.Function)]
