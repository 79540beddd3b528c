"""A Maven repository on loopback that answers as a test wants, and two small files for it."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType

from raftka.pipeline.jar_cache import Jar


def jar_of(name: str, version: str, data: bytes) -> Jar:
    return Jar("org.raftka", name, version, len(data), hashlib.sha256(data).hexdigest())


DATA = (b"first" * 30_000, b"second" * 20_000)
JARS = (jar_of("first", "1.0", DATA[0]), jar_of("second", "2.0", DATA[1]))
FILES = {f"/maven/{jar.path}": data for jar, data in zip(JARS, DATA, strict=True)}

# Answers a request, where a test wants something else than files.
Answer = Callable[[BaseHTTPRequestHandler], None]


def ignore(_: str) -> None:
    """Take a line that a test does not look at."""


def send(handler: BaseHTTPRequestHandler, data: bytes, claimed: int | None = None) -> None:
    """Send a body, as one of `claimed` bytes."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data) if claimed is None else claimed))
    handler.end_headers()
    # The other side may have seen enough.
    with suppress(ConnectionError):
        handler.wfile.write(data)


class MavenRepository:
    """A server with `files` below `url`; `asked` are the paths that it was asked for, `passwords` what came along."""

    def __init__(self, answer: Answer | None = None, files: dict[str, bytes] | None = None) -> None:
        self.files = FILES if files is None else files
        self.asked: list[str] = []
        self.passwords: list[str | None] = []
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.asked.append(self.path)
                repository.passwords.append(self.headers["Authorization"])
                if answer is not None:
                    answer(self)
                elif self.path in repository.files:
                    send(self, repository.files[self.path])
                else:
                    self.send_error(404)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base's
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/maven"

    def __enter__(self) -> "MavenRepository":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
