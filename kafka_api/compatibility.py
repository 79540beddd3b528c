"""The tables of docs/compatibility.md, from the code: `python -m kafka_api.compatibility` writes them anew.

A developer tool; nothing of the broker imports it. Each table stands between two comments of the page, which name it;
a test compares the page with the code. The tests and their brokers record the outcome of each client's tasks, and what
it has sent: `make sent-requests` writes it into a file, and this module into the page. `make test-ecosystem` does the
same with the runs of frameworks.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kafka_api.groups.answered_errors import ANSWERED_ERRORS
from kafka_api.handlers.registry import ADVERTISED_WITH_TRANSACTIONS, OF_TRANSACTIONS, SERVED
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.schema.message_schema import Direction, schema_of
from model.topic_config import TOPIC_CONFIGS

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"
SENT_REQUESTS = Path(__file__).parents[1] / "tests" / "clients" / "sent_requests.json"
FRAMEWORK_RUNS = Path(__file__).parents[1] / "tests" / "ecosystem" / "framework_runs.json"

_LEVEL = "needs `transaction.version` 1"
# How answers differ from Kafka's. What holds for more than one key stands in the page's text.
_DIFFERENCES: Mapping[ApiKey, str] = {
    ApiKey.PRODUCE: "0 to 2 are advertised for old librdkafka and refused when used",
    ApiKey.FIND_COORDINATOR: f"a transactional id {_LEVEL}",
    ApiKey.SASL_HANDSHAKE: "ILLEGAL_SASL_STATE, as from Kafka on a listener without SASL",
    ApiKey.INIT_PRODUCER_ID: f"a transactional id {_LEVEL}; only the current producer of an id aborts by its epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: _LEVEL,
    ApiKey.ADD_OFFSETS_TO_TXN: _LEVEL,
    ApiKey.END_TXN: f"{_LEVEL}; stricter where a producer was replaced",
    ApiKey.WRITE_TXN_MARKERS: f"{_LEVEL}; for administrators only: ends exactly the open transaction of a producer",
    ApiKey.TXN_OFFSET_COMMIT: _LEVEL,
    ApiKey.DESCRIBE_ACLS: "SECURITY_DISABLED, as from Kafka without an authorizer",
    ApiKey.CREATE_ACLS: "SECURITY_DISABLED",
    ApiKey.DELETE_ACLS: "SECURITY_DISABLED",
    ApiKey.DESCRIBE_CONFIGS: "groups and client metrics have no configuration keys",
    ApiKey.DESCRIBE_LOG_DIRS: "one directory per broker",
    ApiKey.ELECT_LEADERS: "an unclean election never takes place: ELIGIBLE_LEADERS_NOT_AVAILABLE without a majority",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "UNSUPPORTED_VERSION below level 1 of `raftka.membership`",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "always empty",
    ApiKey.ALTER_CLIENT_QUOTAS: "UNSUPPORTED_VERSION for each entry",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "always empty; RESOURCE_NOT_FOUND for each named user",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "UNSUPPORTED_SASL_MECHANISM for each user",
    ApiKey.DESCRIBE_QUORUM: "describes raft0; any broker answers, every voter is a broker",
    ApiKey.UPDATE_FEATURES: "levels are raised; only `transaction.version` is lowered, from 2 to 1",
    ApiKey.DESCRIBE_PRODUCERS: "about 20,000 producers per answer; INVALID_REQUEST for the partitions beyond that",
    ApiKey.LIST_TRANSACTIONS: "a pattern beyond what is matched in linear time gets INVALID_REGULAR_EXPRESSION; "
    "more than 32 MiB of ids get INVALID_REQUEST: filter them",
    ApiKey.LIST_CONFIG_RESOURCES: "topics and brokers; nothing else has a configuration",
}

# Advertised, and never sent by a client of the tests; anything else is seen from one of them.
NEVER_SENT: Mapping[ApiKey, str] = {
    ApiKey.CREATE_ACLS: "nobody: DescribeAcls, which kafka-acls sends first, is refused",
}


def sent_requests() -> dict[str, dict[str, Any]]:
    """Return what is recorded of each client.

    `version`; `run` with its `date` and `commit`; `tasks`, what it was asked for, with what came of it; and `requests`,
    API names with the versions that it sent.
    """
    clients: dict[str, dict[str, Any]] = json.loads(SENT_REQUESTS.read_text(encoding="utf-8"))
    return {client: clients[client] for client in sorted(clients, key=str.lower)}


def _seen_from(key: ApiKey, api: str) -> str:
    seen = {client: told["requests"][api] for client, told in sent_requests().items() if api in told["requests"]}
    shown = "; ".join(f"{client} {', '.join(map(str, versions))}" for client, versions in seen.items())
    return shown or NEVER_SENT.get(key, "")


def _client_table() -> Iterable[str]:
    yield "| client | version | last run | of commit |"
    yield "| --- | --- | --- | --- |"
    for client, told in sent_requests().items():
        yield f"| {client} | {told['version']} | {told['run']['date']} | {told['run']['commit']} |"


def _task_table() -> Iterable[str]:
    """Yield who was asked for what, and what came of it: those who were asked for the same in one table each."""
    askings: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for client, told in sent_requests().items():
        askings.setdefault(tuple(told["tasks"]), {})[client] = told["tasks"]
    for number, (tasks, clients) in enumerate(askings.items()):
        if number:  # An empty line, or it would be one table.
            yield ""
        yield f"| task | {' | '.join(clients)} |"
        yield f"| --- |{' --- |' * len(clients)}"
        for task in tasks:
            outcomes = " | ".join(told[task] for told in clients.values())
            yield f"| {task.replace('_', ' ')} | {outcomes} |"


def framework_runs() -> list[dict[str, Any]]:
    """Return the last run of each part of each framework on each system.

    `framework` and `version`; `what`, the part; `system`; `seconds`, `date` and `commit` of the run.
    """
    runs: list[dict[str, Any]] = json.loads(FRAMEWORK_RUNS.read_text(encoding="utf-8"))
    return runs


def _framework_table() -> Iterable[str]:
    """Yield each part of each framework, with systems of the same run in one line."""
    yield "| framework | version | what ran | on | last run | of commit |"
    yield "| --- | --- | --- | --- | --- | --- |"
    systems: dict[tuple[str, ...], list[str]] = {}
    for run in framework_runs():
        line = tuple(run[each] for each in ("framework", "version", "what", "date", "commit"))
        systems.setdefault(line, []).append(run["system"])
    for (framework, version, what, date, commit), names in systems.items():
        yield f"| {framework} | {version} | {what} | {', '.join(names)} | {date} | {commit} |"


def _api_table() -> Iterable[str]:
    yield "| key | API | versions | seen from | what differs from Kafka |"
    yield "| --- | --- | --- | --- | --- |"
    for key, advertised in sorted(ADVERTISED_WITH_TRANSACTIONS.items()):
        served = SERVED.get(key) or OF_TRANSACTIONS.get(key)
        low, high = (served.first_version, served.last_version) if served else advertised
        name = schema_of(key, Direction.REQUEST).name.removesuffix("Request")
        versions = str(low) if low == high else f"{low} to {high}"
        seen, differs = _seen_from(ApiKey(key), name), _DIFFERENCES.get(ApiKey(key), "")
        row = " | ".join(("", str(key), name, versions, seen, differs, ""))
        yield row.replace("  ", " ").replace("  ", " ").strip()


def _group_errors_table() -> Iterable[str]:
    yield "| API | errors |"
    yield "| --- | --- |"
    for key, errors in sorted(ANSWERED_ERRORS.items()):
        name = schema_of(key, Direction.REQUEST).name.removesuffix("Request")
        yield f"| {name} | {', '.join(f'{error.name} {error}' for error in sorted(errors))} |"


def _topic_config_table() -> Iterable[str]:
    yield "| key | default | accepted | broker's default |"
    yield "| --- | --- | --- | --- |"
    for each in TOPIC_CONFIGS.values():
        broker_key = f"`{each.broker_key}` " if each.broker_key else ""
        yield f"| `{each.key}` | {each.show(each.default)} | {each.accepted} | {broker_key}|"


_TABLES: Mapping[str, Callable[[], Iterable[str]]] = {
    "clients": _client_table,
    "tasks": _task_table,
    "frameworks": _framework_table,
    "API keys": _api_table,
    "group errors": _group_errors_table,
    "topic configuration": _topic_config_table,
}


def with_tables(page: str) -> str:
    """Return the page with every table as the code has it.

    Raises:
        ValueError: The page lacks the place of a table.
    """
    for name, table in _TABLES.items():
        page = _replaced(page, name, list(table()))
    return page


def _replaced(page: str, name: str, lines: Sequence[str]) -> str:
    begin, end = f"<!-- {name}: written by python -m kafka_api.compatibility -->", f"<!-- end of {name} -->"
    place = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if len(place.findall(page)) != 1:
        raise ValueError(f"the page must have one {begin!r} with {end!r} behind it")
    text = "\n".join([begin, "", *lines, "", end])
    return place.sub(lambda _: text, page)


def main() -> None:
    """Write the page of the checkout."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
