"""Verbs of brokers' admin ports, for commands that change the cluster.

Any broker takes a verb. A broker takes changes from its own machine only, unless it is configured otherwise; so all
brokers are asked in turn until one takes it. Verbs are idempotent: one whose answer was lost is asked again.
"""

import sys
from typing import Any

from raftka.admin_client import AdminError, request_json
from raftka.cli.exit_codes import CommandError
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError

_ADMIN_LISTENER = "admin.advertised.listener"
_REMOTE = "REMOTE_CHANGE"
_SECONDS = 20.0
_NOT_FOUND = 404
# What the next broker may answer otherwise: it starts, has no leader of raft0, is busy, or does not answer in time.
_NEXT = frozenset({429, 502, 503, 504})


class VerbRefusedError(CommandError):
    """The cluster refuses; `body` is the whole answer."""

    def __init__(self, text: str, body: dict[str, Any]) -> None:
        super().__init__(text)
        self.body = body


def ask_verb(brokers: str, path: str, document: Any = None, seconds: float = _SECONDS) -> dict[str, Any]:
    """Return the answer of a verb: of a GET, or of a POST if there is a document; `seconds` for each broker.

    A list comes as {"rows": [...]}.

    Raises:
        VerbRefusedError: It is refused.
        CommandError: No broker takes it, or none has an admin port that answers.
        KafkaClientError: No broker answers.
    """
    told = ""
    for node in kafka_client.read_cluster(brokers).brokers:
        try:
            status, body = _ask(brokers, node, path, document, seconds)
        except (AdminError, KafkaClientError, CommandError) as error:
            told = told or f"broker {node}: {error}"
            continue
        if status == 200 and isinstance(body, list):
            return {"rows": body}
        if not isinstance(body, dict):
            raise CommandError(f"broker {node}: {path} answers with status {status}, and nothing that can be read")
        if status == 200:
            return body
        words = str(body.get("message") or body.get("error") or f"HTTP status {status}")
        if body.get("error") == _REMOTE or status in _NEXT:
            told = words
            continue
        if status == _NOT_FOUND and "message" not in body:
            raise CommandError(
                f"broker {node} is of an older version, and has no {path}: upgrade it (docs/operations/upgrade.md)"
            )
        raise VerbRefusedError(words, body)
    raise CommandError(told or "no broker answers")


def try_change(brokers: str, path: str, document: dict[str, Any], seconds: float = _SECONDS) -> dict[str, Any] | None:
    """Return the answer of a change that Kafka's protocol has a request for, too; None: no broker takes the verb.

    That is so with another Kafka, an older version, an admin port that does not answer here, and from another machine.

    Raises:
        VerbRefusedError: The change is refused.
        KafkaClientError: No broker answers.
    """
    try:
        return ask_verb(brokers, path, document, seconds)
    except VerbRefusedError:
        raise
    except CommandError:
        return None


def tell_what_it_waits_for(answer: dict[str, Any]) -> None:
    """Say on stderr what a change that was made still waits for; one that is refused waits for nothing."""
    if answer.get("waits_for"):
        print(f"raftka: waits for {answer['waits_for']}", file=sys.stderr)


def _ask(brokers: str, node: int, path: str, document: Any, seconds: float) -> tuple[int, Any]:
    admin = kafka_client.read_broker_config(brokers, node, seconds).get(_ADMIN_LISTENER, "").removeprefix("http://")
    if not admin:
        raise CommandError("it does not publish an admin port; is it Raftka's?")
    method = "GET" if document is None else "POST"
    return request_json(admin, path, seconds, method=method, document=document)
