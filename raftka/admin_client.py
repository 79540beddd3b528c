"""Requests to a broker's admin port; blocking, for the command line and the supervisor."""

import time
from typing import Any

from raftka.error_text import reason_of

# One of these stands in a broker's reason where the files of a replica cannot be used.
_PERMANENT = (" cannot start: ", " has stopped: ", " is damaged: ")
# One of these stands in the reason of a broker that is not in the cluster any more.
_GONE = (" is retired and never counts again", " was removed from the cluster")
# How the words of an AdminError begin.
_NO_ANSWER = "admin port "
# How a broker's own reason begins while it starts.
_STARTING = "starting: "


class AdminError(Exception):
    """The admin port is not reachable or answers something else than JSON; one line."""


def request_json(
    address: str, path: str, timeout: float = 2.0, *, method: str = "GET", document: Any = None
) -> tuple[int, Any]:
    """Return (HTTP status, body) of `http://{address}{path}`; timeout in seconds per step.

    `document` is sent as JSON; None: there is no body.

    Raises:
        AdminError: No answer, or none that is JSON.
    """
    # Imported here: they take longer than everything else that `raftka topic --help` needs.
    import http.client
    import json

    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout)
    try:
        if document is None:
            connection.request(method, path)
        else:
            connection.request(method, path, json.dumps(document), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException) as error:
        raise AdminError(f"{_NO_ANSWER}{address}: {reason_of(error)}") from error
    except ValueError as error:
        raise AdminError(f"{_NO_ANSWER}{address}: {path} did not answer JSON") from error
    finally:
        connection.close()


def read_date(address: str, timeout: float = 2.0) -> tuple[str, float]:
    """Return what a broker says the time is, as HTTP writes it, and the time here: seconds since 1970.

    Raises:
        AdminError: No answer, or none with a time.
    """
    import http.client

    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout)
    try:
        connection.request("GET", "/v1/status/ready")
        date = connection.getresponse().headers["Date"]
        if not date:
            raise AdminError(f"{_NO_ANSWER}{address}: no Date in its answer")
        return date, time.time()
    except (OSError, http.client.HTTPException) as error:
        raise AdminError(f"{_NO_ANSWER}{address}: {reason_of(error)}") from error
    finally:
        connection.close()


def get_json(address: str, path: str, timeout: float = 2.0) -> tuple[int, Any]:
    """Return what `request_json` returns for a GET."""
    return request_json(address, path, timeout)


def not_ready_reason(address: str, timeout: float = 2.0) -> str | None:
    """Return why a broker cannot serve yet; None: it is ready."""
    try:
        status, body = get_json(address, "/v1/status/ready", timeout)
    except AdminError as error:
        return str(error)
    if status == 200:
        return None
    reason = body.get("reason", body.get("error")) if isinstance(body, dict) else None
    return str(reason or f"HTTP status {status}")


def is_permanent(reason: str) -> bool:
    """Return whether `not_ready_reason` names something that waiting does not mend: data that cannot be used."""
    return any(words in reason for words in _PERMANENT)


def is_gone(reason: str) -> bool:
    """Return whether `not_ready_reason` says that the broker is in the cluster no longer, or not with its directory."""
    return any(words in reason for words in _GONE)


def is_leaderless(reason: str) -> bool:
    """Return whether `not_ready_reason` names a partition without a leader, and so nothing of the broker itself."""
    return reason.startswith("partition ") and reason.endswith(" has no leader")


def is_answer(reason: str) -> bool:
    """Return whether `not_ready_reason` comes from a broker that has started, not from one that starts or is absent."""
    return not reason.startswith((_NO_ANSWER, _STARTING))
