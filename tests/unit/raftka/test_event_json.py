"""Events as JSON: all that was asked for, in steps between which the loop runs."""

import asyncio
import json
import logging

import pytest

from cluster.events import EVENTS_MAX, EventKind, Events
from model.ids import NodeId
from raftka.broker import event_json
from raftka.broker.event_json import EVENTS_PER_STEP, render_events


class _Clock:
    def now_ms(self) -> int:
        return 1_000


def _events(count: int) -> Events:
    events = Events(NodeId(1), _Clock())
    for number in range(count):
        events.record(
            logging.DEBUG, EventKind.LEADER, f"node 1 leads \u00fc {number}", partition="orders-0", term=number
        )
    return events


@pytest.mark.parametrize(("count", "since"), [(0, 1), (1, 1), (5, 3), (100, 1), (250, 101), (EVENTS_MAX, 0), (3, 9)])
def test_the_answer_has_the_events_from_a_number_on(count: int, since: int) -> None:
    answer = json.loads(asyncio.run(render_events(_events(count), since)))
    assert {key: answer[key] for key in ("node_id", "boot", "next")} == {"node_id": 1, "boot": 1_000, "next": count + 1}
    assert [each["seq"] for each in answer["events"]] == list(range(max(since, 1), count + 1))
    for each in answer["events"]:
        number = each["seq"] - 1
        assert each["text"] == f"node 1 leads \u00fc {number}"
        assert (each["kind"], each["level"], each["partition"]) == ("leader", "DEBUG", "orders-0")
        assert each["term"] == (number or None)


def test_no_step_of_the_loop_encodes_more_than_a_hundred_events(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = 0
    largest = 0
    row = event_json._row

    def counted(event):
        nonlocal encoded
        encoded += 1
        return row(event)

    monkeypatch.setattr(event_json, "_row", counted)

    async def test() -> bytes:
        nonlocal largest
        rendering = asyncio.ensure_future(render_events(_events(EVENTS_MAX), 1))
        seen = 0
        while not rendering.done():
            await asyncio.sleep(0)
            largest, seen = max(largest, encoded - seen), encoded
        return rendering.result()

    assert len(json.loads(asyncio.run(test()))["events"]) == EVENTS_MAX == encoded
    assert 0 < largest <= EVENTS_PER_STEP


def test_what_happens_meanwhile_is_left_to_the_next_request() -> None:
    async def test() -> tuple[bytes, bytes]:
        events = _events(150)
        rendering = asyncio.ensure_future(render_events(events, 1))
        await asyncio.sleep(0)
        events.record(logging.DEBUG, EventKind.NODE_LOST, "node 2 lost")
        first = await rendering
        return first, await render_events(events, json.loads(first)["next"])

    first, second = map(json.loads, asyncio.run(test()))
    assert (first["next"], len(first["events"])) == (151, 150)
    assert [each["text"] for each in second["events"]] == ["node 2 lost"]
