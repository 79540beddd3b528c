"""Events as JSON, encoded in short steps: a reader who asks for all of them must not hold the loop."""

import asyncio
import json
import logging

from cluster.events import Event, Events

EVENTS_PER_STEP = 100


async def render_events(events: Events, since: int) -> bytes:
    """Return the answer of `GET /v1/events`: `node_id`, `boot`, `next`, and the events numbered `since` or above.

    Other tasks run between every EVENTS_PER_STEP. The answer is what was kept at the call.
    """
    found = events.since(since)
    head = json.dumps({"node_id": events.node_id, "boot": events.boot, "next": events.next_seq})
    parts = []
    for start in range(0, len(found), EVENTS_PER_STEP):
        parts += [json.dumps(_row(event)) for event in found[start : start + EVENTS_PER_STEP]]
        await asyncio.sleep(0)
    return f'{head[:-1]}, "events": [{", ".join(parts)}]}}'.encode()


def _row(event: Event) -> dict[str, object]:
    return {
        "seq": event.seq,
        "at_ms": event.at_ms,
        "kind": event.kind.value,
        "level": logging.getLevelName(event.level),
        "partition": event.partition or None,
        "term": event.term or None,
        "text": event.text,
    }
