"""docs/compatibility.md says what the code does."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.kafka.jars import kafka_version
from kafka_api.compatibility import NEVER_SENT, PAGE, sent_requests, with_tables
from kafka_api.handlers.registry import ADVERTISED_WITH_TRANSACTIONS
from kafka_api.protocol.schema.message_schema import Direction, schema_of
from tests.clients.all_clients import CLIENTS, TOOLS_NAME
from tests.clients.client import Abilities
from tests.clients.tasks import client_tasks, tools_tasks

ROOT = Path(__file__).parents[3]
NODE_LOCK = ROOT / "tests" / "clients" / "node" / "package-lock.json"


def test_the_tables_of_the_page_are_those_of_the_code():
    page = PAGE.read_text("utf-8")
    assert with_tables(page) == page, "run: python -m kafka_api.compatibility"


def test_a_table_that_is_wrong_is_put_right():
    page = PAGE.read_text("utf-8")
    assert with_tables(page.replace("| 1 | Fetch | 4 to 18 |", "| 1 | Fetch | 4 to 17 |")) == page
    assert with_tables(page.replace("| `flush.ms` |", "| `flush.hours` |")) == page


def test_a_page_without_the_place_of_a_table_is_refused():
    with pytest.raises(ValueError, match="end of API keys"):
        with_tables(PAGE.read_text("utf-8").replace("<!-- end of API keys -->", ""))


def test_every_request_that_a_client_was_seen_to_send_is_served():
    served = {
        schema_of(key, Direction.REQUEST).name.removesuffix("Request"): range(first, last + 1)
        for key, (first, last) in ADVERTISED_WITH_TRANSACTIONS.items()
    }
    for client, told in sent_requests().items():
        assert told["version"], client
        for api, versions in told["requests"].items():
            assert set(versions) <= set(served[api]), f"{client}: {api}"


def test_every_key_that_is_advertised_is_seen_from_a_client_or_said_to_be_sent_by_nobody():
    seen = {api for told in sent_requests().values() for api in told["requests"]}
    names = {key: schema_of(key, Direction.REQUEST).name for key in ADVERTISED_WITH_TRANSACTIONS}
    unseen = {key for key, name in names.items() if name.removesuffix("Request") not in seen}
    assert unseen == set(NEVER_SENT)


def test_every_client_has_passed_every_task_that_it_can_be_asked_for():
    """As the suite has them now: one that was left out, or a task that came since, is missing here."""
    recorded = {client: told["tasks"] for client, told in sent_requests().items()}
    wanted = {
        name: {task: asked.outcome(kind.abilities) for task, asked in client_tasks().items()}
        for name, kind in CLIENTS.items()
    }
    wanted[TOOLS_NAME] = {task: asked.outcome(Abilities()) for task, asked in tools_tasks().items()}
    assert recorded == wanted, "run: make sent-requests"


def _pinned_versions() -> dict[str, str]:
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    go = (ROOT / "tests" / "clients" / "go" / "go.mod").read_text()
    modules = dict(re.findall(r"^\s(\S+) (v\S+)$", go, re.MULTILINE))
    node = json.loads(NODE_LOCK.read_text())["packages"]
    return {
        **{name: pins[name] for name in ("aiokafka", "confluent-kafka", "kafka-python")},
        "franz-go": modules["github.com/twmb/franz-go"],
        "sarama": modules["github.com/IBM/sarama"],
        "KafkaJS": node["node_modules/kafkajs"]["version"],
        **dict.fromkeys(("Java", TOOLS_NAME), kafka_version()),
    }


def test_what_was_run_is_what_is_pinned():
    # librdkafka's own version follows in brackets.
    recorded = {client: told["version"].partition(" ")[0] for client, told in sent_requests().items()}
    assert re.fullmatch(r"\d+\.\d+\.\d+", recorded.pop("kcat"))  # The system's: nothing here pins it.
    assert recorded == _pinned_versions(), "run: make sent-requests"


def test_every_run_has_its_date_and_the_commit_it_was_of():
    for client, told in sent_requests().items():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", told["run"]["date"]), client
        assert re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", told["run"]["commit"]), client
