"""Answers of `/metrics`: rendered in slices, once for all who ask within a second, and sent without holding others up.

A slice has at most 100 samples, and other tasks run after it: 2,500 replicas in one step would hold up heartbeats.
"""

import asyncio
from collections.abc import Iterable, Mapping

from aiohttp import web

from model.fixed_histogram import FixedHistogram
from raftka.broker.exposition import HISTOGRAM_SAMPLES, Exposition, Format
from raftka.broker.metric_rows import SAMPLES_PER_SLICE, Row, RowSource
from raftka.monitoring.catalogue import BY_NAME, Path

_KEPT_SECONDS = 1.0
_WAIT_SECONDS = 5.0
_SEND_SECONDS = 10.0
_PIECE_BYTES = 64 * 1024


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
        self._exposition = Exposition(wanted)
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
                self._kept = await render(self._path, self._sources, self._exposition)
                asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._drop)
            return self._kept
        finally:
            # Before the first byte is sent: a client that reads slowly holds nobody up.
            self._rendering.release()

    def _drop(self) -> None:
        self._kept = None


async def render(path: Path, sources: Iterable[RowSource], exposition: Exposition) -> bytes:
    """Return all samples of a path; other tasks run after each slice of SAMPLES_PER_SLICE."""
    now = asyncio.get_running_loop().time()
    lines = exposition.scrape()
    pieces: list[str] = []
    pending: list[Row] = []
    samples = 0
    for row in (row for source in sources for row in source.rows(now)):
        if row is None:
            await asyncio.sleep(0)
            continue
        assert BY_NAME[row.name].path is path
        size = HISTOGRAM_SAMPLES if isinstance(row.value, FixedHistogram) else 1
        if samples + size > SAMPLES_PER_SLICE:
            pieces.append(lines.encode(pending))
            pending, samples = [], 0
            await asyncio.sleep(0)
        pending.append(row)
        samples += size
    pieces.append(lines.encode(pending))
    pieces.append(exposition.end)
    return "".join(pieces).encode()


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
