"""Debezium carries a table of PostgreSQL into a compacted topic, while workers of Connect and brokers die."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from raftka.dev.ports import LOOPBACK
from raftka.kafka import client as kafka_client
from tests.clients.streams_application import policies_of
from tests.ecosystem.brokers import REPLICAS, Brokers
from tests.ecosystem.compacted_records import KeyedRecord, is_compacted, read_all
from tests.ecosystem.connect_workers import CONFIGS, OFFSETS, Workers
from tests.ecosystem.java_process import debezium_class_path
from tests.ecosystem.postgres_server import DATABASE, USER, PostgresServer
from tests.ecosystem.python_environments import FOLDER, python_with
from tests.ecosystem.reporting_program import ReportingProgram
from tests.needed_tools import needs_tools
from tests.process.broker_processes import eventually
from tests.process.committed_records import CommittedReader

pytestmark = [
    pytest.mark.process,
    pytest.mark.ecosystem,
    pytest.mark.timeout(900),
    needs_tools("java", "mvn", "setpriv"),
]

_CONNECTOR = "shop"
# Debezium gives them these names.
_CHANGES, _HISTORY = f"{_CONNECTOR}.public.orders", f"{_CONNECTOR}.transaction"
_PARTITIONS = 2
_STEP_TRANSACTIONS = 50
_FEWEST_REMOVED = 100
# A worker that was killed is missed after 10 s, and its task is given away 3 s later.
_STEP_SECONDS = 150.0
_PROGRAM_SECONDS = 30.0


class _Shop:
    """The table, what changes it, and what Debezium has written of its transactions."""

    def __init__(self, server: PostgresServer, brokers: Brokers, workers: Workers, folder: Path) -> None:
        self._server = server
        self._brokers = brokers
        self._workers = workers
        self._log = folder / "changes.log"

    def command(self, task: str) -> list[str]:
        place = [LOOPBACK, str(self._server.port), USER, DATABASE]
        return [str(python_with("postgres")), str(FOLDER / "shop_changes.py"), task, *place]

    def run(self, task: str) -> list[Any]:
        done = subprocess.run(self.command(task), capture_output=True, text=True, timeout=_PROGRAM_SECONDS, check=False)
        assert done.returncode == 0, done.stderr[-2_000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    def changes(self) -> ReportingProgram:
        return ReportingProgram(self.command("write"), self._log)

    def wait_snapshot(self) -> None:
        """Wait until the rows that the table began with are there: later transactions are in the history."""
        self.wait_topic(_CHANGES)
        eventually(lambda: f"rows are there{self._workers.ends_of_logs()}", lambda: self.newest() == self.rows())

    def wait_topic(self, topic: str) -> None:
        """Wait until Connect has created the topic."""

        def is_there() -> bool:
            found = kafka_client.read_cluster(self._brokers.bootstrap).topics.get(topic, [])
            return bool(found) and all(each.leader != -1 for each in found)

        eventually(lambda: f"{topic} is there{self._workers.ends_of_logs()}", is_there, _STEP_SECONDS)

    def rows(self) -> dict[int, int]:
        """Return the amount of each id in the table."""
        return {row["id"]: row["amount"] for row in self.run("read")}

    def records(self) -> list[KeyedRecord]:
        return read_all(self._brokers.bootstrap, _CHANGES, _PARTITIONS)

    def newest(self) -> dict[int, int] | None:
        """Return the amount of each id in the topic; None if a tombstone is still missing after a deletion."""
        newest = {json.loads(record.key)["payload"]["id"]: record.value for record in self.records()}
        rows = {}
        for number, value in newest.items():
            if value is not None:
                after = json.loads(value)["payload"]["after"]
                if after is None:
                    return None
                rows[number] = after["amount"]
        return rows


class _History:
    """The ends of transactions in the topic of transactions.

    Args:
        reader: Of the topic.
    """

    def __init__(self, reader: CommittedReader) -> None:
        self._reader = reader

    def counts(self) -> dict[int, int]:
        """Return how many changes Debezium has counted in each transaction."""
        said = [json.loads(value)["payload"] for value in list(self._reader.counts)]
        # An id is the transaction's number, and its place in the log.
        return {int(each["id"].partition(":")[0]): each["event_count"] for each in said if each["status"] == "END"}

    def wait(self, reports: list[Any], workers: Workers) -> None:
        """Wait until all transactions that are reported now are there with all changes."""
        wanted = {each["transaction"]: each["changes"] for each in reports}

        def missing() -> dict[int, int]:
            counts = self.counts()
            return {number: changes for number, changes in wanted.items() if counts.get(number) != changes}

        eventually(
            lambda: (
                f"{len(missing())} of {len(wanted)} transactions are missing: {missing()} are not in {self.counts()}"
                f"{workers.ends_of_logs()}"
            ),
            lambda: not missing(),
            _STEP_SECONDS,
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    folder = Path(debezium_class_path()).parent
    (jar,) = folder.glob("embedded-postgres-binaries-*.jar")
    with closing(PostgresServer(jar, tmp_path / "postgres.log")) as server:
        yield server


@pytest.fixture
def workers(brokers: Brokers, tmp_path: Path) -> Iterator[Workers]:
    made = Workers(brokers.bootstrap, tmp_path, is_exactly_once=False, find_class_path=debezium_class_path)
    with closing(made) as workers:
        workers.start()
        yield workers


def test_debezium_keeps_the_newest_state_of_each_row_though_workers_and_brokers_are_killed(
    brokers: Brokers, workers: Workers, server: PostgresServer, tmp_path: Path
) -> None:
    shop = _Shop(server, brokers, workers, tmp_path)
    shop.run("create")
    workers.create(_CONNECTOR, _connector(server))
    shop.wait_snapshot()
    with closing(shop.changes()) as changes:
        shop.wait_topic(_HISTORY)
        with closing(CommittedReader(brokers.bootstrap, _HISTORY, range(1))) as reader:
            history = _History(reader)

            def wait_more() -> None:
                changes.wait_more(_STEP_TRANSACTIONS, _STEP_SECONDS)
                history.wait(list(changes.reports), workers)

            wait_more()
            victim = workers.worker_of(_CONNECTOR)
            workers.kill(victim)
            wait_more()
            workers.restart(victim)
            brokers.kill_each_once(wait_more)
            workers.wait_runs(_CONNECTOR)

            def is_done() -> bool:
                wait_more()
                return is_compacted(shop.records(), _FEWEST_REMOVED)

            eventually("changes are compacted", is_done, _STEP_SECONDS)
            history.wait(changes.end(), workers)
            # Debezium has invented no transaction.
            assert set(history.counts()) == {each["transaction"] for each in changes.reports}
    rows = shop.rows()
    eventually(lambda: f"only here: {_differences(shop.newest() or {}, rows)}", lambda: shop.newest() == rows)
    assert any(record.value is None for record in shop.records())
    assert policies_of(brokers.bootstrap, _CONNECTOR) == {_CHANGES: "compact", _HISTORY: "delete"}
    assert policies_of(brokers.bootstrap, CONFIGS) | policies_of(brokers.bootstrap, OFFSETS) == {
        CONFIGS: "compact",
        OFFSETS: "compact",
    }
    brokers.check_passes()


def _differences(topic: dict[int, int], table: dict[int, int]) -> dict[str, list[tuple[int, int]]]:
    return {"topic": sorted(topic.items() - table.items()), "table": sorted(table.items() - topic.items())}


def _connector(server: PostgresServer) -> dict[str, str]:
    converters = {f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")}
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": LOOPBACK,
        "database.port": str(server.port),
        "database.user": USER,
        "database.password": "any",
        "database.dbname": DATABASE,
        "plugin.name": "pgoutput",
        "topic.prefix": _CONNECTOR,
        "table.include.list": "public.orders",
        "publication.autocreate.mode": "filtered",
        "provide.transaction.metadata": "true",
        # The connection of a worker that was killed may still hold the slot.
        "slot.retry.delay.ms": "1000",
        "slot.max.retries": "60",
        **converters,
        "topic.creation.default.replication.factor": str(REPLICAS),
        "topic.creation.default.partitions": str(_PARTITIONS),
        "topic.creation.default.cleanup.policy": "compact",
        "topic.creation.groups": "history",
        "topic.creation.history.include": _HISTORY.replace(".", r"\."),
        "topic.creation.history.replication.factor": str(REPLICAS),
        "topic.creation.history.partitions": "1",
        "topic.creation.history.cleanup.policy": "delete",
        "topic.creation.history.retention.ms": "-1",
    }
