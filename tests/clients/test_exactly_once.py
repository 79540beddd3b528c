"""The programs of docs/exactly-once.md lose no input and double none while brokers and programs are killed."""

from pathlib import Path

import pytest

from tests.clients.exactly_once import (
    PARTITIONS,
    PROGRAMS,
    Pipeline,
    check_each_input_has_one_output,
    pipeline_at_work,
    program_command,
    programs_of_page,
)
from tests.clients.referee import Referee
from tests.process.broker_processes import BrokerCluster
from tests.process.command_line import start_detached

pytestmark = pytest.mark.process

_INSTANCE = "one"
# aiokafka's program takes all partitions by hand, so it has one instance.
_IN_GROUPS = sorted(PROGRAMS.keys() - {"aiokafka"})


def _each(names: list[str]) -> list[object]:
    return [pytest.param(name, id=name, marks=PROGRAMS[name][2]) for name in names]


@pytest.fixture
def pipeline(transactional: BrokerCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Pipeline:
    """A client's program between two topics of this test's own; the parameter names the client."""
    client = str(request.param)
    place = f"{client}.{abs(hash(request.node.name))}"
    source, target = f"{place}.orders", f"{place}.receipts"
    for topic in (source, target):
        Referee(transactional).create_topic(topic, PARTITIONS)
    return Pipeline(program_command(client, tmp_path), transactional.bootstrap, source, target, tmp_path)


def test_the_page_has_each_program_that_is_tested_and_no_other() -> None:
    assert programs_of_page().keys() == {name for name, _, _ in PROGRAMS.values()}


@pytest.mark.parametrize("pipeline", _each(list(PROGRAMS)), indirect=True)
def test_each_input_has_one_output_though_leaders_and_coordinators_are_killed(
    transactional: BrokerCluster, pipeline: Pipeline
) -> None:
    referee = Referee(transactional)
    with pipeline_at_work(pipeline, transactional.bootstrap, _INSTANCE) as feeder:
        for find in (
            lambda: referee.transaction_coordinator_of(f"{pipeline.target}-{_INSTANCE}"),
            lambda: referee.coordinator_of(pipeline.target),
            lambda: referee.leader_of(pipeline.target),
        ):
            victim = find()
            transactional[victim].kill()
            try:
                pipeline.wait_more(50)
            finally:
                transactional.restart([victim])
        check_each_input_has_one_output(pipeline, feeder, transactional.bootstrap)


@pytest.mark.parametrize("pipeline", ["kafka-python"], indirect=True)
def test_each_input_has_one_output_though_a_leader_is_killed(transactional: BrokerCluster, pipeline: Pipeline) -> None:
    """The kills above are too long for kafka-python outside of `make test-long`."""
    with pipeline_at_work(pipeline, transactional.bootstrap, _INSTANCE) as feeder:
        victim = Referee(transactional).leader_of(pipeline.target)
        transactional[victim].kill()
        try:
            pipeline.wait_more(50)
        finally:
            transactional.restart([victim])
        check_each_input_has_one_output(pipeline, feeder, transactional.bootstrap)


@pytest.mark.long
@pytest.mark.parametrize("pipeline", _each(_IN_GROUPS), indirect=True)
def test_each_input_has_one_output_though_an_instance_dies_and_comes_back(
    transactional: BrokerCluster, pipeline: Pipeline
) -> None:
    with pipeline_at_work(pipeline, transactional.bootstrap, "one", "two") as feeder:
        for instance in ("one", "two", "one"):
            pipeline.kill(instance)
            pipeline.start(instance)
            pipeline.wait_more(200)
        check_each_input_has_one_output(pipeline, feeder, transactional.bootstrap)


@pytest.mark.long
@pytest.mark.parametrize("name", _each(list(PROGRAMS)))
def test_each_input_has_one_output_though_raftka_dev_kills_any_broker(name: str, tmp_path: Path) -> None:
    dev = start_detached(tmp_path / "dev", 3)
    try:
        for topic in ("orders", "receipts"):
            dev.client("topic", "create", topic, "-p", str(PARTITIONS))
        brokers = dev.bootstrap
        pipeline = Pipeline(program_command(name, tmp_path), brokers, "orders", "receipts", tmp_path)
        with pipeline_at_work(pipeline, brokers, _INSTANCE) as feeder:
            for node in ("1", "2", "3"):
                dev.dev("kill", node)
                pipeline.wait_more(50)
                dev.dev("restart", node)
            check_each_input_has_one_output(pipeline, feeder, brokers)
    finally:
        dev.dev("stop")
