"""A schema registry keeps all ids and schemas in a compacted topic, though it and brokers are killed."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.clients.streams_application import policies_of, request_topics
from tests.ecosystem.brokers import REPLICAS, Brokers
from tests.ecosystem.compacted_records import is_compacted, read_all
from tests.ecosystem.registry_process import Picture, RegistryProcess, avro_writer, read_picture
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
# A round has four reports.
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
        brokers.kill_each_once(wait_more)
        _wait_compacted(brokers, wait_more)
        reports = writer.end()
    wanted = Picture(reports)
    before = read_picture(brokers.bootstrap, registry.url, _TOPIC)
    _check_ids_are_unique(wanted)
    assert before == wanted
    registry.kill()
    # It reads segments that were compacted.
    registry.start()
    assert read_picture(brokers.bootstrap, registry.url, _TOPIC) == wanted
    gone = {each["deleted"] for each in reports if "deleted" in each}
    assert len(gone) > 1
    assert not gone & {subject for subject, _ in wanted.versions}
    assert policies_of(brokers.bootstrap, SCHEMAS) == {SCHEMAS: "compact"}
    brokers.check_passes()


def _wait_compacted(brokers: Brokers, wait_more: Callable[[], None]) -> None:
    """Go on until records that others replace are no longer there."""

    def is_done() -> bool:
        wait_more()
        return is_compacted(read_all(brokers.bootstrap, SCHEMAS), _STEP_REPORTS)

    eventually(f"{SCHEMAS} is compacted", is_done, _STEP_SECONDS)


def _check_ids_are_unique(picture: Picture) -> None:
    ids = Counter(schema_id for schema_id, _ in picture.versions.values())
    assert max(ids.values()) == 1, ids.most_common(3)
