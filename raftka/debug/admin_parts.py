"""What the admin port of a broker answers, as parts of a bundle."""

import http.client
import json
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple

from raftka.config import parse_address
from raftka.debug.bundle_file import BundleFile
from raftka.debug.deadlines import TimeBudget
from raftka.debug.errors import MissingPartError

_STEP_SECONDS = 5.0
_PATH_SECONDS = 10.0
_READ_BYTES = 64 * 1024
_SHOWN_CHARACTERS = 200
# Part, path.
PATHS = (
    ("ready.json", "/v1/status/ready"),
    ("live.json", "/v1/status/live"),
    ("health.json", "/v1/health"),
    ("events.json", "/v1/events"),
    ("bounds.json", "/v1/bounds"),
    ("brokers.json", "/v1/brokers"),
    ("metrics.txt", "/metrics"),
)


class Answer(NamedTuple):
    """What came: the HTTP status, the body or its beginning, and whether all of it is there."""

    status: int
    body: bytes
    is_whole: bool


def read_answer(address: str, path: str, bytes_max: int) -> Answer:
    """Return the answer of HOST:PORT to a GET.

    Raises:
        OSError, HTTPException: No answer.
        ValueError: The address is none.
    """
    host, port = parse_address(address)
    connection = http.client.HTTPConnection(host, port, timeout=_STEP_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = b""
        while len(body) <= bytes_max and (data := response.read1(_READ_BYTES)):
            body += data
        return Answer(response.status, body[:bytes_max], len(body) <= bytes_max)
    finally:
        connection.close()


def add_admin_parts(bundle: BundleFile, budget: TimeBudget, folder: str, address: str, hint: str = "") -> None:
    """Add what the admin port at HOST:PORT answers; `folder` begins the names of the parts.

    `hint` is said where nobody answers.
    """
    silence = None
    for name, path in PATHS:
        part = f"{folder}/{name}"
        if silence is not None:
            bundle.miss(part, f"not asked for: {silence}")
            continue
        try:
            answer = budget.run(_PATH_SECONDS, partial(read_answer, address, path, bundle.room))
        except MissingPartError as error:
            # The next paths would wait as long.
            silence = f"admin port {address}: {error}{hint}"
            bundle.miss(part, silence)
            continue
        _add(bundle, part, answer)


def _add(bundle: BundleFile, part: str, answer: Answer) -> None:
    is_json = part.endswith(".json")
    if answer.status == HTTPStatus.NOT_FOUND:
        bundle.miss(part, "HTTP 404: this broker has no such page")
    elif not is_json and answer.status == HTTPStatus.OK:
        whole_lines = answer.body if answer.is_whole else answer.body[: answer.body.rfind(b"\n") + 1]
        cut = None if answer.is_whole else f"the end, behind the first {len(whole_lines)} bytes"
        bundle.add_text(part, whole_lines, cut=cut)
    elif not answer.is_whole:
        bundle.miss(part, f"the answer has more than {len(answer.body)} bytes")
    elif is_json and (value := _parsed(answer.body)) is not None:
        # Also an answer such as 503 of /v1/status/ready, which says why.
        bundle.add_json(part, value, http_status=answer.status)
    else:
        words = answer.body.decode(errors="replace")[:_SHOWN_CHARACTERS]
        bundle.miss(part, f"HTTP {answer.status}: {' '.join(words.split())}")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def other_admins(budget: TimeBudget, addresses: Iterable[str]) -> dict[int, str]:
    """Return the admin addresses that the first of these brokers knows, by node id; none if no broker answers."""
    for address in addresses:
        try:
            answer = budget.run(_PATH_SECONDS, partial(read_answer, address, "/v1/brokers", 1 << 20))
        except MissingPartError:
            continue
        brokers = _parsed(answer.body)
        if answer.status == HTTPStatus.OK and isinstance(brokers, list):
            rows = [each for each in brokers if isinstance(each, dict)]
            return {each["node_id"]: each["admin"] for each in rows if _is_broker(each)}
    return {}


def _is_broker(row: dict[str, Any]) -> bool:
    return isinstance(row.get("node_id"), int) and isinstance(row.get("admin"), str)
