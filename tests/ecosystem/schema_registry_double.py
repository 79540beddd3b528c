"""A double of Confluent's schema registry: no registry that compacts its topic can be had from PyPI or Maven Central.

It has the part of the REST interface that Confluent's client uses here. It keeps everything in the compacted topic
`_schemas`, in Confluent's format, and nothing on disk. Unlike Confluent's it runs alone, does not check compatibility,
and knows neither references nor contexts.

    python -m tests.ecosystem.schema_registry_double BOOTSTRAP HOST:PORT
"""

import json
import re
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.ecosystem.schemas_topic import SchemasTopic, StoreError, Version

_SUBJECT_NOT_FOUND, _SCHEMA_NOT_FOUND, _SUBJECT_NOT_SOFT_DELETED = 40401, 40403, 40405
_STORE_FAILED = 50001


class _RefusedError(Exception):
    """What Confluent's registry refuses with 404, too."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Registry:
    """What the REST interface does; one request at a time.

    Args:
        topic: It is open.
    """

    def __init__(self, topic: SchemasTopic) -> None:
        self._topic = topic
        self._schemas = topic.schemas
        self._lock = threading.Lock()

    def answer(self, method: str, url: str, body: dict[str, Any]) -> Any:
        """Return what a request is answered with.

        Raises:
            _RefusedError: There is no such thing.
            StoreError: Something was perhaps not written.
        """
        parts = urlsplit(url)
        for route_method, pattern, action in _ROUTES:
            found = re.fullmatch(pattern, parts.path)
            if found is not None and method == route_method:
                names = [unquote(each) for each in found.groups()]
                with self._lock:
                    self._topic.read_to_end_if_unsure()
                    return action(self, *names, {**parse_qs(parts.query), **body})
        raise _RefusedError(HTTPStatus.NOT_FOUND, f"no {method} {parts.path}")

    def register(self, subject: str, asked: dict[str, Any]) -> Any:
        schema = asked["schema"]
        known = self._schemas.of(subject)
        for each in known:
            if each.schema == schema and not each.is_deleted:
                return {"id": each.schema_id}
        new = Version(
            subject, max((each.version for each in known), default=0) + 1, self._schemas.id_of(schema), schema, False
        )
        value = {"subject": subject, "version": new.version, "id": new.schema_id, "schema": schema, "deleted": False}
        self._topic.write(_schema_key(new), value)
        return {"id": new.schema_id}

    def schema_with_id(self, schema_id: str, _: dict[str, Any]) -> Any:
        found = self._schemas.with_id(int(schema_id))
        if found is None:
            raise _RefusedError(_SCHEMA_NOT_FOUND, f"no schema {schema_id}")
        return {"schema": found.schema}

    def subjects(self, asked: dict[str, Any]) -> Any:
        is_all = asked.get("deleted") == ["true"]
        return sorted({each.subject for each in self._schemas.versions.values() if is_all or not each.is_deleted})

    def versions(self, subject: str, _: dict[str, Any]) -> Any:
        return [each.version for each in self._live(subject)]

    def version(self, subject: str, number: str, _: dict[str, Any]) -> Any:
        for each in self._live(subject):
            if each.version == int(number):
                return {"subject": subject, "version": each.version, "id": each.schema_id, "schema": each.schema}
        raise _RefusedError(_SUBJECT_NOT_FOUND, f"no version {number} of {subject}")

    def delete(self, subject: str, asked: dict[str, Any]) -> Any:
        known = self._schemas.of(subject)
        if asked.get("permanent") == ["true"] and known:
            if any(not each.is_deleted for each in known):
                raise _RefusedError(_SUBJECT_NOT_SOFT_DELETED, f"{subject} is not deleted")
            for each in known:
                self._topic.write(_schema_key(each), None)
            return [each.version for each in known]
        live = [each.version for each in self._live(subject)]
        key = {"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0}
        self._topic.write(key, {"subject": subject, "version": live[-1]})
        return live

    def set_compatibility(self, subject: str, asked: dict[str, Any]) -> Any:
        level = asked["compatibility"]
        key = {"keytype": "CONFIG", "subject": subject, "magic": 0}
        self._topic.write(key, {"subject": subject, "compatibilityLevel": level})
        return {"compatibility": level}

    def compatibility(self, subject: str, _: dict[str, Any]) -> Any:
        return {"compatibilityLevel": self._schemas.compatibility[subject]}

    def _live(self, subject: str) -> list[Version]:
        found = [each for each in self._schemas.of(subject) if not each.is_deleted]
        if not found:
            raise _RefusedError(_SUBJECT_NOT_FOUND, f"no subject {subject}")
        return found


_ROUTES: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("POST", r"/subjects/([^/]+)/versions", Registry.register),
    ("GET", r"/schemas/ids/(\d+)", Registry.schema_with_id),
    ("GET", r"/subjects", Registry.subjects),
    ("GET", r"/subjects/([^/]+)/versions", Registry.versions),
    ("GET", r"/subjects/([^/]+)/versions/(\d+)", Registry.version),
    ("DELETE", r"/subjects/([^/]+)", Registry.delete),
    ("PUT", r"/config/([^/]+)", Registry.set_compatibility),
    ("GET", r"/config/([^/]+)", Registry.compatibility),
)


def _schema_key(version: Version) -> dict[str, Any]:
    return {"keytype": "SCHEMA", "subject": version.subject, "version": version.version, "magic": 1}


def _handler_of(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                self._send(HTTPStatus.OK, registry.answer(self.command, self.path, json.loads(body or b"{}")))
            except _RefusedError as error:
                self._send(HTTPStatus.NOT_FOUND, {"error_code": error.code, "message": str(error)})
            except StoreError as error:
                self._send(HTTPStatus.INTERNAL_SERVER_ERROR, {"error_code": _STORE_FAILED, "message": str(error)})

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

        def _send(self, status: HTTPStatus, answer: Any) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


def main() -> None:
    """Answer requests once the topic is read."""
    bootstrap, address = sys.argv[1:]
    host, _, port = address.rpartition(":")
    topic = SchemasTopic(bootstrap)
    topic.open()
    with ThreadingHTTPServer((host, int(port)), _handler_of(Registry(topic))) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
