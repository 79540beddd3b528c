"""Ctrl-C and SIGTERM as the end of what is read."""

import io
import os
import signal
from collections.abc import Iterator

import pytest

from raftka.cli.input_stream import InputStream
from raftka.cli.interrupts import InputEnd


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def _plain_signals() -> Iterator[None]:
    """Have them as a process that was started from a terminal, whoever has started the tests."""
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    assert {number: signal.signal(number, before[number]) for number in defaults} == defaults


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_what_is_being_read(number: int) -> None:
    end = InputEnd()
    with end.listening(), pytest.raises(KeyboardInterrupt):
        end.call(send, number)
    assert end.is_reached
    assert not end.is_urgent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_nothing_else_and_ends_the_next_read(number: int) -> None:
    end = InputEnd()
    with end.listening():
        stream = InputStream(io.BytesIO(b"one\ntwo\n"), end)
        assert stream.readline(10) == b"one\n"
        send(number)
        for read in (stream.readline, stream.read1):
            with pytest.raises(KeyboardInterrupt):
                read(10)
    assert stream.tell() == len(b"one\n")


def test_a_second_signal_is_urgent_and_raises_nothing() -> None:
    end = InputEnd()
    with end.listening():
        send(signal.SIGINT)
        end.reach()
        assert not end.is_urgent
        send(signal.SIGTERM)
        assert end.is_urgent


def test_the_first_signal_behind_the_end_of_a_file_is_urgent() -> None:
    end = InputEnd()
    with end.listening():
        end.reach()
        assert not end.is_urgent
        send(signal.SIGINT)
        assert end.is_urgent


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    end = InputEnd()
    with end.listening():
        end.call(send, signal.SIGINT)
    assert not end.is_reached
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN
