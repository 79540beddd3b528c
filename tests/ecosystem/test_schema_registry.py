"""A schema registry keeps all ids and schemas in a compacted topic, though it and brokers are killed."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.clients.streams_application import policies_of, request_topics
from tests.ecosystem.brokers import REPLICAS, Brokers
from tests.ecosystem.compacted_records import is_compacted, read_all
from tests.ecosystem.registry_process import Picture, RegistryProcess, avro_writer, read_picture
from tests.ecosystem.reporting_program import ReportingProgram
from tests.ecosystem.schemas_topic import TOPIC as SCHEMAS
from tests.needed_tools import needs_tools
from tests.process.broker_processes import eventually

pytestmark = [
    pytest.mark.process,
    pytest.mark.ecosystem,
    pytest.mark.timeout(600),
    # Apache Kafka's.
    needs_tools("java", "mvn"),
]

_TOPIC = "readings"
# A round has four reports, or five with a delete.
_STEP_REPORTS = 40
_STEP_SECONDS = 120.0


@pytest.fixture
def registry(brokers: Brokers, tmp_path: Path) -> Iterator[RegistryProcess]:
    registry = RegistryProcess(brokers.bootstrap, tmp_path)
    try:
        registry.start()
        yield registry
    finally:
        registry.kill()


def test_a_schema_registry_keeps_all_ids_and_schemas_though_it_and_brokers_are_killed(
    brokers: Brokers, registry: RegistryProcess, tmp_path: Path
) -> None:
    request_topics(brokers.bootstrap, [_TOPIC], REPLICAS)
    with closing(avro_writer(brokers.bootstrap, registry.url, _TOPIC, tmp_path)) as writer:

        def wait_more() -> None:
            writer.wait_more(_STEP_REPORTS, _STEP_SECONDS)

        wait_more()
        registry.kill()
        registry.start()
        wait_more()
        # A broker that is away has the schemas that are deleted meanwhile, and lacks the tombstones.
        brokers.kill_each_once(lambda: _wait_deletes_compacted(brokers, writer))
        _wait_compacted(brokers, wait_more)
        reports = writer.end()
    wanted = Picture(reports)
    before = read_picture(brokers.bootstrap, registry.url, _TOPIC)
    _check_ids_are_unique(wanted)
    assert before == wanted
    gone = {each["deleted"] for each in reports if "deleted" in each}
    assert len(gone) > 1
    assert not gone & wanted.subjects

    def check_anew() -> None:
        registry.kill()
        # It reads segments that were compacted.
        registry.start()
        found = read_picture(brokers.bootstrap, registry.url, _TOPIC)
        assert not gone & found.subjects, "a deleted subject has come back"
        assert found == wanted

    brokers.lead_each_once(SCHEMAS, check_anew)
    assert policies_of(brokers.bootstrap, SCHEMAS) == {SCHEMAS: "compact"}
    brokers.check_passes()


def _wait_deletes_compacted(brokers: Brokers, writer: ReportingProgram) -> None:
    """Wait until a subject is deleted from now on, and a pass has removed its schema."""
    before = len(writer.reports)

    def is_done() -> bool:
        gone = {each["deleted"] for each in writer.reports[before:] if "deleted" in each}
        return bool(gone - _subjects_with_schemas(brokers))

    eventually("a deleted schema is removed", is_done, _STEP_SECONDS)


def _subjects_with_schemas(brokers: Brokers) -> set[str]:
    """Return the subjects of which the topic has a schema, deleted or not."""
    records = [each for each in read_all(brokers.bootstrap, SCHEMAS) if each.value is not None]
    return {key["subject"] for key in (json.loads(each.key) for each in records) if key["keytype"] == "SCHEMA"}


def _wait_compacted(brokers: Brokers, wait_more: Callable[[], None]) -> None:
    """Go on until records that others replace are no longer there."""

    def is_done() -> bool:
        wait_more()
        return is_compacted(read_all(brokers.bootstrap, SCHEMAS), _STEP_REPORTS)

    eventually(f"{SCHEMAS} is compacted", is_done, _STEP_SECONDS)


def _check_ids_are_unique(picture: Picture) -> None:
    ids = Counter(schema_id for schema_id, _ in picture.versions.values())
    assert max(ids.values()) == 1, ids.most_common(3)
