"""GET requests to a broker's admin port; blocking, for the command line and the supervisor."""

import http.client
import json
from typing import Any


class AdminError(Exception):
    """The admin port is not reachable or answers something else than JSON; one line."""


def get_json(address: str, path: str, timeout: float = 2.0) -> tuple[int, Any]:
    """Return (HTTP status, body) of `http://{address}{path}`; timeout in seconds per step.

    Raises:
        AdminError: No answer, or none that is JSON.
    """
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException) as error:
        raise AdminError(f"admin port {address}: {error}") from error
    except ValueError as error:
        raise AdminError(f"admin port {address}: {path} did not answer JSON") from error
    finally:
        connection.close()


def not_ready_reason(address: str, timeout: float = 2.0) -> str | None:
    """Return why a broker cannot serve yet; None: it is ready."""
    try:
        status, body = get_json(address, "/v1/status/ready", timeout)
    except AdminError as error:
        return str(error)
    if status == 200:
        return None
    reason = body.get("reason") if isinstance(body, dict) else None
    return str(reason or f"HTTP status {status}")
