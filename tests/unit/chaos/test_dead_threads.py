"""Threads of a chaos run that end with an error."""

import threading

from raftka.chaos.dead_threads import DeadThreads


def fail() -> None:
    raise ValueError("no such partition")


def test_threads_that_die_are_noted_and_told_as_before(monkeypatch):
    told = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    with DeadThreads() as dead:
        for target in (fail, lambda: None):
            thread = threading.Thread(target=target, name="producer-3")
            thread.start()
            thread.join()
    assert dead.problems == ["producer-3 of the run itself died: ValueError: no such partition"]
    assert [str(each.exc_value) for each in told] == ["no such partition"]
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert len(dead.problems) == 1
