"""Tasks: what is in a record, every codec at every acks, and where a time begins."""

from collections.abc import Sequence

import pytest

from tests.clients.client import ALL_ACKS, ALL_CODECS, Abilities, Client, Record, values_only
from tests.clients.referee import Referee

pytestmark = pytest.mark.process

T0_MS = 1_700_000_000_000
STEP_MS = 1_000


def records_for(abilities: Abilities, count: int, name: str) -> list[Record]:
    """Return records with all that the client can write: no key, tombstones, headers, times.

    Some clients refuse a record that has neither key nor value.
    """
    return [
        Record(
            key=None if number % 5 == 3 else f"key-{number}",
            value=None if number % 5 == 4 else f"{name}-{number} " + "blah" * 40,
            headers=_headers(abilities, number),
            timestamp=T0_MS + number * STEP_MS if abilities.sets_timestamps else None,
        )
        for number in range(count)
    ]


def _headers(abilities: Abilities, number: int) -> tuple[tuple[str, str | None], ...]:
    if not abilities.headers_per_record:
        return (("trace", "one"), ("second", "two"))
    if number % 3 == 0:
        return ()
    headers = (("trace", str(number)), ("trace", ""))
    return (*headers, ("none", None)) if abilities.null_headers else headers


def check_same(found: Sequence[Record], sent: Sequence[Record], first_offset: int = 0) -> None:
    """What was read is what was sent, dense from an offset on."""
    assert [record.content for record in found] == [record.content for record in sent]
    assert [record.offset for record in found] == list(range(first_offset, first_offset + len(sent)))
    for read, written in zip(found, sent, strict=True):
        assert written.timestamp is None or read.timestamp == written.timestamp


@pytest.mark.asks(uses=("codecs", "sets_timestamps", "null_headers", "headers_per_record", "idempotent"))
def test_every_codec_at_every_acks_is_read_back_by_itself_and_by_others(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic)
    ways = [(codec, acks, False) for codec in client.abilities.codecs for acks in ALL_ACKS]
    if client.abilities.idempotent:
        ways += [(codec, "all", True) for codec in client.abilities.codecs]
    sent: list[Record] = []
    for codec, acks, idempotent in ways:
        more = records_for(client.abilities, 30, f"{codec}-{acks}-{idempotent}")
        offsets = client.produce(topic, more, codec=codec, acks=acks, idempotent=idempotent)
        if acks != "0":  # Without an answer there is no offset.
            assert offsets == list(range(len(sent), len(sent) + len(more)))
        sent += more
        if acks == "0":  # The next producer has another connection, and nobody waited for this one.
            referee.wait_visible(topic, len(sent))
    check_same(referee.read(topic, len(sent)), sent)
    check_same(client.fetch(topic, 0, len(sent)), sent)
    middle = len(sent) - 45  # In the middle of a batch.
    check_same(client.fetch(topic, middle, 40), sent[middle : middle + 40], middle)


@pytest.mark.asks(uses=("codecs",))
def test_every_codec_of_others_is_read(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic)
    sent: list[Record] = []
    for codec in ALL_CODECS:
        if codec in client.abilities.codecs:
            more = records_for(Abilities(), 30, codec)
            referee.write(topic, more, codec)
            sent += more
    check_same(client.fetch(topic, 0, len(sent)), sent)


def test_a_time_finds_the_first_record_at_or_after_it(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic)
    sent = records_for(Abilities(), 60, "timed")
    referee.write(topic, sent, "none")
    for number, offset in ((0, 0), (17.5, 18), (41, 41), (59, 59)):
        assert client.offset_at(topic, T0_MS + int(number * STEP_MS)) == offset
        check_same(client.fetch(topic, offset, 1), sent[offset : offset + 1], offset)
    assert client.offset_at(topic, T0_MS - 1) == 0
    assert client.offset_at(topic, T0_MS + 59 * STEP_MS + 1) == -1


@pytest.mark.asks(needs=("idempotent",))
def test_an_idempotent_producer_writes_on_where_it_was(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic)
    sent: list[Record] = []
    for number in range(3):
        more = values_only([f"{number}-{each}" for each in range(40)])
        assert client.produce(topic, more, idempotent=True) == list(range(len(sent), len(sent) + len(more)))
        sent += more
    check_same(referee.read(topic, len(sent)), sent)
