"""Kafka Streams' own programs judge Kafka Streams, which makes its compacted topics itself and loses processes."""

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.clients.streams_application import (
    StreamsApplication,
    check_application_made_changelogs,
    create_plain_topics,
    policies_of,
)
from tests.ecosystem.brokers import REPLICAS, Brokers
from tests.ecosystem.streams_smoke import APPLICATION, SmokeRun
from tests.needed_tools import needs_tools

pytestmark = [
    pytest.mark.process,
    pytest.mark.ecosystem,
    # On two cores each kill takes half a minute: a session that ends, a group that forms, states that are read.
    pytest.mark.timeout(900),
    needs_tools("java", "javac", "mvn"),
]

_INSTANCES = ("one", "two")


@pytest.mark.parametrize("suffix", ["", "-complex"], ids=["simple", "complex"])
def test_streams_does_each_input_once_with_changelogs_of_its_own_though_processes_are_killed(
    brokers: Brokers, suffix: str, tmp_path: Path
) -> None:
    create_plain_topics(brokers.bootstrap, REPLICAS)
    with closing(StreamsApplication(brokers.bootstrap, tmp_path, suffix)) as application:
        for instance in _INSTANCES:
            application.start(instance)
        application.wait_more()
        # The second kill of an instance shows nothing new, and takes half a minute.
        application.kill(_INSTANCES[0])
        application.wait_more()
        application.start(_INSTANCES[0])
        brokers.kill_each_once(application.wait_more)
        application.end_inputs()
        application.end()
        application.verify()
    check_application_made_changelogs(brokers.bootstrap, suffix)
    brokers.check_passes()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_the_smoke_test_of_streams_succeeds_though_processes_are_killed(
    brokers: Brokers, guarantee: str, tmp_path: Path
) -> None:
    with closing(SmokeRun(brokers.bootstrap, tmp_path, guarantee, REPLICAS)) as run:
        for instance in _INSTANCES:
            run.start(instance)
        run.wait_more()
        run.kill(_INSTANCES[0])
        run.wait_more()
        run.start(_INSTANCES[0])
        brokers.kill_each_once(run.wait_more)
        run.verify()
        run.end()
    policies = Counter(policies_of(brokers.bootstrap, APPLICATION).values())
    # Tables are compacted, windows also end, and what is between two parts of the topology is deleted once it is done.
    assert set(policies) == {"compact", "compact,delete", "delete"}, policies
    brokers.check_passes()
