"""Answers of `/metrics`: rendered in slices, once for all who ask within a second, and sent without holding others up.

A slice has at most 100 samples, and other tasks run after it: 2,500 replicas in one step would hold up heartbeats.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import accumulate, groupby
from typing import Any

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from model.fixed_histogram import BOUNDS, FixedHistogram
from raftka.broker.metric_rows import SAMPLES_PER_SLICE, Row, RowSource
from raftka.monitoring.catalogue import BY_NAME, Kind, Path

_KEPT_SECONDS = 1.0
_WAIT_SECONDS = 5.0
_SEND_SECONDS = 10.0
_PIECE_BYTES = 64 * 1024
_EOF = b"# EOF\n"
_BUCKETS = (*(repr(bound) for bound in BOUNDS), "+Inf")


class Format(Enum):
    """How samples are written; the value is the Content-Type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


_GENERATE: dict[Format, Any] = {Format.TEXT: generate_latest, Format.OPEN_METRICS: generate_openmetrics}


def format_of(accept: str) -> Format:
    """Return the format that an Accept header prefers; text if it names neither or is no such header."""
    weights = dict.fromkeys(Format, 0.0)
    for part in accept.split(","):
        media, *parameters = (word.strip().lower() for word in part.split(";"))
        for each in Format:
            if each.value.partition(";")[0] == media:
                weights[each] = max(weights[each], _weight(parameters))
    return Format.OPEN_METRICS if weights[Format.OPEN_METRICS] > weights[Format.TEXT] else Format.TEXT


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0


class Scrapes:
    """The paths of metrics at the admin port."""

    def __init__(self, sources: Mapping[Path, tuple[RowSource, ...]]) -> None:
        self._scrapes = {
            path: {each: Scrape(path, sources[path], each) for each in Format} for path in Path if path in sources
        }

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer GET or HEAD of one of the paths."""
        wanted = format_of(request.headers.get("Accept", ""))
        scrape = self._scrapes[Path(request.path)][wanted]
        try:
            body = await scrape.text()
        except TimeoutError:
            message = f"another scrape has not been rendered for {_WAIT_SECONDS:g} s"
            return web.json_response({"error": message}, status=503)
        return await _send(request, body, wanted)


class Scrape:
    """One path in one format: at most one is rendered at a time, and is kept for whoever asks within a second."""

    def __init__(self, path: Path, sources: tuple[RowSource, ...], wanted: Format) -> None:
        self._path = path
        self._sources = sources
        self._format = wanted
        self._rendering = asyncio.Lock()
        self._kept: bytes | None = None

    async def text(self) -> bytes:
        """Return the answer.

        Raises:
            TimeoutError: Another one is rendered for too long.
        """
        if self._kept is not None:
            return self._kept
        async with asyncio.timeout(_WAIT_SECONDS):
            await self._rendering.acquire()
        try:
            # Another asker may have rendered it meanwhile.
            if self._kept is None:
                self._kept = await render(self._path, self._sources, self._format)
                asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._drop)
            return self._kept
        finally:
            # Before the first byte is sent: a client that reads slowly holds nobody up.
            self._rendering.release()

    def _drop(self) -> None:
        self._kept = None


async def render(path: Path, sources: Iterable[RowSource], wanted: Format) -> bytes:
    """Return all samples of a path; other tasks run after each slice of SAMPLES_PER_SLICE."""
    now = asyncio.get_running_loop().time()
    pieces: list[bytes] = []
    pending: list[Row] = []
    samples, last_name = 0, ""
    for row in (row for source in sources for row in source.rows(now)):
        if row is None:
            await asyncio.sleep(0)
            continue
        assert BY_NAME[row.name].path is path
        size = len(_BUCKETS) + 2 if isinstance(row.value, FixedHistogram) else 1
        if samples + size > SAMPLES_PER_SLICE:
            pieces.append(_encode(pending, last_name, wanted))
            last_name, pending, samples = pending[-1].name, [], 0
            await asyncio.sleep(0)
        pending.append(row)
        samples += size
    pieces.append(_encode(pending, last_name, wanted))
    if wanted is Format.OPEN_METRICS:
        pieces.append(_EOF)
    return b"".join(pieces)


def _encode(rows: list[Row], last_name: str, wanted: Format) -> bytes:
    """Encode a slice; the family of `last_name` has its head already."""
    pieces = []
    for name, group in groupby(rows, key=lambda row: row.name):
        text = _GENERATE[wanted](_OneFamily(_metric(name, group))).removesuffix(_EOF)
        if name == last_name:
            text = b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(b"#"))
        pieces.append(text)
    return b"".join(pieces)


class _OneFamily:
    """As much of a registry as prometheus-client reads."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def _metric(name: str, rows: Iterable[Row]) -> Metric:
    family = BY_NAME[name]
    # prometheus-client knows a counter by its name without the suffix.
    known_as = name.removesuffix("_total") if family.kind is Kind.COUNTER else name
    metric = Metric(known_as, family.help, family.kind.value)
    for row in rows:
        labels = dict(zip(family.labels, row.labels, strict=True))
        if isinstance(row.value, FixedHistogram):
            for bound, count in zip(_BUCKETS, accumulate(row.value.counts), strict=True):
                metric.add_sample(f"{name}_bucket", {**labels, "le": bound}, count)
            metric.add_sample(f"{name}_sum", labels, row.value.sum)
            metric.add_sample(f"{name}_count", labels, row.value.count)
        else:
            metric.add_sample(name, labels, row.value)
    return metric


async def _send(request: web.Request, body: bytes, wanted: Format) -> web.StreamResponse:
    """Send in pieces; a client that does not take all of it in time is disconnected."""
    response = web.StreamResponse(headers={"Content-Type": wanted.value})
    response.content_length = len(body)
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    try:
        async with asyncio.timeout(_SEND_SECONDS):
            for start in range(0, len(body), _PIECE_BYTES):
                await response.write(body[start : start + _PIECE_BYTES])
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        # The client has gone: there is nobody to tell.
        pass
    return response
