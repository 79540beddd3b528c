"""Log lines: one per event, to stderr, as text or as JSON."""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from model.replica_tag import TAG, ReplicaTag

_SECONDS = "%Y-%m-%dT%H:%M:%S"
_logger = logging.getLogger("broker")


class TextFormatter(logging.Formatter):
    """`TIME LEVEL LOGGER MESSAGE`, in UTC; a traceback follows on lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s %(message)s", _SECONDS)
        self.converter = time.gmtime


class JsonFormatter(logging.Formatter):
    """One JSON object in one line, with the same keys in each; docs/operations/logs.md describes them."""

    def __init__(self, node_id: int) -> None:
        super().__init__(datefmt=_SECONDS)
        self.converter = time.gmtime
        self._node_id = node_id

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end; the prefix of a replica becomes fields."""
        tag: ReplicaTag | None = getattr(record, TAG, None)
        message = record.getMessage()
        parts = []
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        line = {
            "time": f"{self.formatTime(record, _SECONDS)}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "node": self._node_id,
            "partition": None if tag is None else tag.partition,
            "term": None if tag is None else tag.term,
            "role": None if tag is None else tag.role,
            "message": message if tag is None else message.removeprefix(tag.on("")),
            "traceback": "\n".join(parts) or None,
        }
        # ASCII, with escapes: no reader takes U+2028 for the end of a line, and lone surrogates can be written.
        return json.dumps(line)


def configure_logging(level: str, form: str, node_id: int) -> Callable[[str], None]:
    """Send everything at or above `level` to stderr, `form` is "text" or "json".

    Returns what tells the one line with which a broker refuses to start, or ends. It takes no lock of logging: a
    thread that holds one may hang.
    """
    formatter = TextFormatter() if form == "text" else JsonFormatter(node_id)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    if form == "text":
        return _tell_as_text
    _log_uncaught_errors()

    def tell_as_json(line: str) -> None:
        record = logging.LogRecord(_logger.name, logging.CRITICAL, __file__, 0, line, None, None)
        print(formatter.format(record), file=sys.stderr, flush=True)

    return tell_as_json


def _tell_as_text(line: str) -> None:
    print(f"raftka: {line}", file=sys.stderr, flush=True)


def _log_uncaught_errors() -> None:
    """Let what the interpreter would print, over several lines, be records of the log."""
    logging.captureWarnings(True)

    def on_error(kind: type[BaseException], error: BaseException, at: TracebackType | None) -> None:
        _logger.critical("the process ends with an error that nobody caught", exc_info=(kind, error, at))

    def on_thread_error(raised: threading.ExceptHookArgs) -> None:
        _logger.critical(
            "thread %s ends with an error that nobody caught",
            *(raised.thread.name if raised.thread is not None else "?",),
            exc_info=raised.exc_value,
        )

    def on_unraisable(raised: "sys.UnraisableHookArgs") -> None:
        _logger.error("%s: %r", raised.err_msg or "error ignored in", raised.object, exc_info=raised.exc_value)

    sys.excepthook, threading.excepthook, sys.unraisablehook = on_error, on_thread_error, on_unraisable
