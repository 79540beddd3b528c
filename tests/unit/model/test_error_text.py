"""No reason is empty, whatever was raised."""

import asyncio
import builtins
import http.client

import pytest

from model import error_text
from raftka import error_text as client_error_text

RAISED_WITHOUT_TEXT = [
    kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, (UnicodeError, ExceptionGroup))
]


@pytest.mark.parametrize(
    "kind",
    [*RAISED_WITHOUT_TEXT, asyncio.CancelledError, http.client.ResponseNotReady, KeyboardInterrupt],
    ids=lambda kind: kind.__name__,
)
def test_an_exception_without_text_has_a_reason_the_same_for_brokers_and_clients(kind: type[BaseException]) -> None:
    reason = error_text.reason_of(kind())
    assert reason.strip()
    assert client_error_text.reason_of(kind()) == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "no answer in time"),
        (asyncio.CancelledError(), "cancelled"),
        (ConnectionResetError(), "the connection was reset"),
        (AssertionError(), "AssertionError"),
        (OSError(), "OSError"),
        (ValueError("  "), "ValueError"),
        (TimeoutError("timed out"), "timed out"),
        (FileNotFoundError(2, "No such file or directory", "x"), "[Errno 2] No such file or directory: 'x'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_text_of_an_exception_is_its_reason_and_its_class_stands_in(error: BaseException, reason: str) -> None:
    assert error_text.reason_of(error) == reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FileNotFoundError(2, "No such file or directory", "x"), "No such file or directory"),
        (TimeoutError(), "no answer in time"),
        (ValueError("not a number"), "not a number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_short_reason_leaves_the_file_out(error: BaseException, reason: str) -> None:
    assert client_error_text.short_reason_of(error) == reason
