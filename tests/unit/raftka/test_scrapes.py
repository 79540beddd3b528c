"""Scrapes: slices, one answer for all who ask within a second, formats, and clients that read slowly."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from model.fixed_histogram import BOUNDS, FixedHistogram
from raftka.broker import scrapes
from raftka.broker.exposition import Exposition, Format, ScrapeLines
from raftka.broker.metric_rows import SAMPLES_PER_SLICE, Row
from raftka.broker.scrapes import Scrapes, format_of, render
from raftka.monitoring.catalogue import Path
from tests.unit.cluster.cluster_nodes import run

PEERS = 1234


class Source:
    """Yields what it is given, and counts how often it was asked."""

    def __init__(self, rows) -> None:
        self._rows = rows
        self.asked = 0
        self.yielded = 0

    def rows(self, now):
        self.asked += 1
        for row in self._rows:
            self.yielded += row is not None
            yield row


def _histogram() -> FixedHistogram:
    histogram = FixedHistogram()
    for seconds in (0.0001, 0.003, 0.004, 99.0):
        histogram.observe(seconds, 1.0)
    return histogram


def _many() -> list[Row]:
    return [
        Row("raftka_groups", 3),
        *(Row("raftka_peer_up", node % 2, (str(node),)) for node in range(PEERS)),
        Row("raftka_kafka_request_seconds", _histogram(), ("Fetch",)),
        Row("raftka_kafka_requests_total", 7, ('Fe\n"tch\\', "1")),
    ]


@asynccontextmanager
async def _port(source):
    """Yield the port of a server with the paths of metrics."""
    application = web.Application()
    found = Scrapes({Path.BROKER: (source,), Path.PARTITIONS: ()})
    for path in Path:
        application.router.add_get(path.value, found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _ask(port, target="/metrics", method="GET", accept="*/*"):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n".encode())
        async with asyncio.timeout(10):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode().lower(), body
    finally:
        writer.transport.abort()


@pytest.mark.parametrize(("wanted", "parse"), [(Format.TEXT, parse_text), (Format.OPEN_METRICS, parse_openmetrics)])
def test_a_reader_of_the_format_finds_every_sample_once(wanted, parse):
    async def test():
        text = (await render(Path.BROKER, [Source(_many())], Exposition(wanted))).decode()
        families = {family.name: family for family in parse(text)}
        # A head for each family, however many slices it takes.
        assert text.count("# TYPE ") == text.count("# HELP ") == 4 == len(families)
        assert text.endswith("# EOF\n") == (wanted is Format.OPEN_METRICS)
        assert text.count("# EOF") == (wanted is Format.OPEN_METRICS)
        found = {sample.labels["node"]: sample.value for sample in families["raftka_peer_up"].samples}
        assert found == {str(node): node % 2 for node in range(PEERS)}
        assert len(families["raftka_peer_up"].samples) == PEERS
        buckets = families["raftka_kafka_request_seconds"].samples
        assert [sample.value for sample in buckets if sample.name.endswith("_bucket")] == [
            *(1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4)
        ]
        assert [float(sample.labels["le"]) for sample in buckets[: len(BOUNDS)]] == list(BOUNDS)
        assert {sample.name: sample.value for sample in buckets[-2:]} == {
            "raftka_kafka_request_seconds_sum": 99.0071,
            "raftka_kafka_request_seconds_count": 4,
        }
        (counter,) = families["raftka_kafka_requests"].samples
        assert (counter.name, counter.value) == ("raftka_kafka_requests_total", 7)
        assert counter.labels == {"api": 'Fe\n"tch\\', "version": "1"}

    run(test)


@pytest.mark.parametrize("wanted", Format)
def test_the_second_scrape_has_new_values_and_no_series_that_is_gone(wanted):
    async def test():
        exposition = Exposition(wanted)
        histogram = _histogram()
        rows = [Row("raftka_peer_up", 1, (odd,)) for odd in ("1", "2 3", "4\x0b5\u2028", 'a"\\\n')]
        latency = Row("raftka_kafka_request_seconds", histogram, ("Fetch",))
        await render(Path.BROKER, [Source([*rows, latency])], exposition)
        histogram.observe(0.2, 2.0)
        later = [row._replace(value=number / 3) for number, row in enumerate(rows)][1:]
        again = await render(Path.BROKER, [Source([*later, latency, Row("raftka_groups", 1e20)])], exposition)
        # As if nothing had been kept.
        anew = await render(Path.BROKER, [Source([*later, latency, Row("raftka_groups", 1e20)])], Exposition(wanted))
        assert again == anew
        assert b'node="1"' not in again
        assert len(exposition._known) == len(later) + 2

    run(test)


def test_no_slice_has_more_than_a_hundred_samples(monkeypatch):
    slices = []
    encode = ScrapeLines.encode

    def counted(lines, rows):
        encoded = encode(lines, rows)
        slices.append(sum(not line.startswith("#") for line in encoded.splitlines()))
        return encoded

    monkeypatch.setattr(ScrapeLines, "encode", counted)

    async def test():
        rows = _many() + [None] * 3 + [Row("raftka_kafka_fetch_sessions", 1)]
        rendering = asyncio.ensure_future(render(Path.BROKER, [Source(rows)], Exposition(Format.TEXT)))
        seen = most = steps = 0
        while not rendering.done():
            await asyncio.sleep(0)
            steps += 1
            most, seen = max(most, len(slices) - seen), len(slices)
        assert max(slices) <= SAMPLES_PER_SLICE
        assert sum(slices) == PEERS + 20
        # One slice in a step, and others have run where the source asked for that.
        assert most == 1
        assert steps >= len(slices) + 3

    run(test)


def test_a_value_that_another_path_exposes_is_refused():
    async def test():
        with pytest.raises(AssertionError):
            await render(Path.BROKER, [Source([Row("raftka_partition_term", 1, ("t", "0"))])], Exposition(Format.TEXT))

    run(test)


def test_scrapes_at_the_same_time_and_within_a_second_get_one_answer(monkeypatch):
    monkeypatch.setattr(scrapes, "_KEPT_SECONDS", 3600.0)

    async def test():
        source = Source(_many())
        async with _port(source) as port:
            answers = await asyncio.gather(*(_ask(port) for _ in range(5)))
            answers.append(await _ask(port))
            assert source.asked == 1
            assert {body for _, _, body in answers} == {answers[0][2]}
            assert len(answers[0][2]) > 10_000
            # The other format is another answer.
            await _ask(port, accept="application/openmetrics-text")
            assert source.asked == 2

    run(test)


def test_a_kept_answer_is_dropped(monkeypatch):
    monkeypatch.setattr(scrapes, "_KEPT_SECONDS", 0.0)

    async def test():
        source = Source(_many())
        async with _port(source) as port:
            for times in (1, 2, 3):
                await _ask(port)
                assert source.asked == times
                # The timer that drops it is due by now.
                await asyncio.sleep(0.001)

    run(test)


def test_a_failed_scrape_fails_alone():
    async def test():
        source = Source([Row("raftka_groups", 3), Row("no_such_family", 1)])
        async with _port(source) as port:
            assert (await _ask(port))[0] == 500
            assert (await _ask(port))[0] == 500
            assert source.asked == 2

    run(test)


def test_a_scrape_that_waits_too_long_for_another_is_refused(monkeypatch):
    monkeypatch.setattr(scrapes, "_WAIT_SECONDS", 0.01)

    async def test():
        go_on = asyncio.Event()

        async def hung(*_):
            await go_on.wait()
            return b""

        monkeypatch.setattr(scrapes, "render", hung)
        async with _port(Source([])) as port:
            first = asyncio.ensure_future(_ask(port))
            await asyncio.sleep(0.01)
            status, _, body = await _ask(port)
            assert status == 503
            assert "another scrape has not been rendered" in json.loads(body)["error"]
            go_on.set()
            assert (await first)[0] == 200

    run(test)


def test_a_client_that_does_not_read_holds_up_nobody_and_is_disconnected(monkeypatch):
    monkeypatch.setattr(scrapes, "_SEND_SECONDS", 0.2)
    rows = [Row("raftka_peer_up", 1, ("x" * 1000 + str(node),)) for node in range(10_000)]

    async def test():
        async with _port(Source(rows)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readline()
            writer.transport.pause_reading()
            # The slot is free: another one gets all of it meanwhile.
            status, _, body = await _ask(port)
            assert status == 200
            assert len(body) > 10_000_000
            await asyncio.sleep(0.3)
            writer.transport.resume_reading()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(len(body))
            writer.transport.abort()

    run(test)


def test_the_content_type_names_the_format_and_head_has_no_body():
    async def test():
        async with _port(Source(_many())) as port:
            _, head, _ = await _ask(port)
            assert "content-type: text/plain; version=0.0.4; charset=utf-8" in head
            _, head, body = await _ask(port, accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.3")
            assert "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8" in head
            assert f"content-length: {len(body)}" in head
            status, head, body = await _ask(port, method="HEAD")
            assert (status, body) == (200, b"")

    run(test)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/html, application/json;q=0.9", Format.TEXT),
        ("application/openmetrics-text", Format.OPEN_METRICS),
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            Format.OPEN_METRICS,
        ),
        ("Application/OpenMetrics-Text ; Q=1", Format.OPEN_METRICS),
        ("application/openmetrics-text;q=0.1,text/plain;q=0.9", Format.TEXT),
        ("application/openmetrics-text;q=0", Format.TEXT),
        ("application/openmetrics-text;q=many", Format.TEXT),
        (",;,;;q=,", Format.TEXT),
    ],
)
def test_the_format_is_the_one_that_accept_prefers(accept, wanted):
    assert format_of(accept) is wanted
