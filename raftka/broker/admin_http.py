"""The admin port.

GET   /v1/status/live                                                   whether its event loop runs
GET   /v1/status/ready                                                  whether this broker serves; if not, why
GET   /v1/brokers                                                       a row for each: state, addresses, refusals
GET   /v1/partitions?topic=T                                            a row for each; offsets of those led here
GET   /v1/partitions/{topic}/{partition}                                leader, replicas, positions
POST  /v1/partitions/{topic}/{partition}/transfer_leadership?target=N   only at the leader; without target: the best one
          &dry_run=true                                                 who would lead, or why nobody else would
GET   /v1/events?since=N                                                what happened, from event N on
GET   /v1/bounds                                                        how full is what has a bound
GET   /v1/health                                                        what is wrong with the cluster, and the cures
GET   /metrics, /metrics/partitions                                     for Prometheus (`scrapes`)
GET, POST                                                               the verbs of `verb_table` (`admin_verbs`)

`admin_access` says which requests are refused before any of these is asked, `admin_parameters` which parameters there
are, and `starting` what is answered until the node has started.
"""

import logging
from collections.abc import Sequence

from aiohttp import web
from aiohttp.http import HttpProcessingError

from cluster.node import Node
from cluster.partition_status import CompactionStatus, Mark, PartitionStatusReader, ReplicaStatus
from cluster.topic_table import Topic
from model.ids import NodeId
from raft.errors import RaftError, TransferTargetError, TransferTimedOutError
from raftka.broker.admin_access import AdminAccess
from raftka.broker.admin_listener import AdminListener
from raftka.broker.admin_parameters import KnownParameters, name_unknown_path
from raftka.broker.admin_verbs import AdminVerbs
from raftka.broker.bounds import node_fills
from raftka.broker.broker_rows import broker_rows
from raftka.broker.event_json import render_events
from raftka.broker.health import HealthReader
from raftka.broker.partition_json import chosen_topics, render_partitions
from raftka.broker.readiness import not_ready, refused_links
from raftka.broker.scrapes import Scrapes
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import LIVE, READY, Starting, ready_response
from raftka.broker.verb_table import VERBS
from raftka.monitoring.catalogue import Path

_DIGITS_MAX = 10
_SHOWN_CHARACTERS = 60


class AdminHttp:
    """Routes over one node, which is there from `serve` on; until then `starting` answers.

    `names` are the hosts by which this port is asked for, besides its addresses (AdminAccess); `verbs` run for those
    who may (AdminVerbs).
    """

    _node: Node
    _statuses: PartitionStatusReader
    _stalls: StallWatch
    _scrapes: Scrapes | None

    def __init__(
        self,
        starting: Starting,
        listener: AdminListener,
        names: Sequence[str] = (),
        verbs: AdminVerbs | None = None,
    ) -> None:
        self._starting = starting
        self._verbs = verbs or AdminVerbs(VERBS, takes_remote_changes=False)
        self._access = AdminAccess(names)
        self._listener = listener
        self._health: HealthReader | None = None
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: The address cannot be bound.
        """
        known = KnownParameters(self._verbs.parameters())
        application = web.Application(
            middlewares=[
                *(self._listener.middleware, self._access.middleware),
                *(known.middleware, self._starting.middleware, name_unknown_path),
            ]
        )
        application.router.add_get(LIVE, self._live)
        application.router.add_get(READY, self._ready)
        application.router.add_get("/v1/brokers", self._brokers)
        application.router.add_get("/v1/partitions", self._partitions)
        application.router.add_get("/v1/partitions/{topic}/{partition}", self._partition)
        application.router.add_post("/v1/partitions/{topic}/{partition}/transfer_leadership", self._transfer)
        application.router.add_get("/v1/bounds", self._bounds)
        application.router.add_get("/v1/health", self._find_health)
        application.router.add_get("/v1/events", self._events)
        self._verbs.route(application.router, lambda: self._node)
        for path in Path:
            application.router.add_get(path.value, self._metrics)
        server_logger = logging.getLogger("aiohttp.server")
        server_logger.addFilter(_is_about_this_broker)
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, logger=server_logger, shutdown_timeout=1.0
        )
        await self._runner.setup()
        await self._listener.start(self._runner, host, port)

    def serve(
        self, node: Node, statuses: PartitionStatusReader, stalls: StallWatch, scrapes: Scrapes | None = None
    ) -> None:
        """Answer from a node that has started; `scrapes` answers what Prometheus asks, None: nobody does."""
        self._node, self._statuses, self._scrapes = node, statuses, scrapes
        self._stalls = stalls
        self._health = HealthReader(node, stalls, lambda: not_ready(node, stalls.leaders), lambda: refused_links(node))
        self._starting.end()

    async def stop(self) -> None:
        """Close the port and what is open on it."""
        self._listener.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _live(self, _: web.Request) -> web.Response:
        return web.json_response({"live": True, "node_id": self._starting.node_id})

    async def _ready(self, _: web.Request) -> web.Response:
        return ready_response(self._starting.node_id, not_ready(self._node, self._stalls.leaders))

    async def _brokers(self, _: web.Request) -> web.Response:
        return web.json_response(await broker_rows(self._node))

    async def _find_health(self, request: web.Request) -> web.Response:
        assert self._health is not None
        return await self._health.answer(request)

    async def _bounds(self, _: web.Request) -> web.Response:
        fills = [fill._asdict() for fill in node_fills(self._node)]
        return web.json_response(sorted(fills, key=lambda fill: fill["used"] / fill["maximum"], reverse=True))

    async def _events(self, request: web.Request) -> web.Response:
        wanted = request.query.getall("since", ["1"])
        since = parse_number(wanted[0]) if len(wanted) == 1 else None
        if since is None:
            return _error(400, f"since={','.join(wanted)[:_SHOWN_CHARACTERS]}: must be one number, that of an event")
        body = await render_events(self._node.events, since)
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def _partitions(self, request: web.Request) -> web.Response:
        names = request.query.getall("topic", [])
        if len(names) > 1:
            return _error(400, f"topic={','.join(names)[:_SHOWN_CHARACTERS]}: must be one name")
        topics = chosen_topics(self._node, names[0] if names else None)
        if names and not topics:
            return _error(404, f"no topic {names[0][:_SHOWN_CHARACTERS]!r}")
        body = await render_partitions(self._node, topics)
        return web.Response(body=body, content_type="application/json", charset="utf-8")

    async def _partition(self, request: web.Request) -> web.Response:
        found = self._find(request)
        if isinstance(found, web.Response):
            return found
        topic, number = found
        leader = self._node.leadership.leader_of(topic.group(number))
        statuses = await self._statuses.gather(topic, number)
        return web.json_response(
            {
                "partition": number,
                "leader": -1 if leader is None else leader.node_id,
                "term": -1 if leader is None else leader.term,
                "replicas": [replica.node_id for replica in topic.replicas[number]],
                "in_sync": next((status.in_sync for status in statuses if status.in_sync), []),
                "positions": [_positions(status) for status in statuses if status.role != "-"],
            }
        )

    def _find(self, request: web.Request) -> tuple[Topic, int] | web.Response:
        """Return the partition that the path names, or the answer that it does not exist."""
        name, number = request.match_info["topic"], request.match_info["partition"]
        topic = self._node.controller.topics.get(name)
        if topic is None:
            return _error(404, f"no topic {name!r}")
        partition = parse_number(number)
        if partition is None or partition >= len(topic.replicas):
            return _error(404, f"topic {name!r} has partitions 0 to {len(topic.replicas) - 1}")
        return topic, partition

    async def _transfer(self, request: web.Request) -> web.Response:
        found = self._find(request)
        if isinstance(found, web.Response):
            return found
        topic, number = found
        wanted = request.query.get("target")
        target = None if wanted is None else parse_number(wanted)
        if wanted is not None and target is None:
            return _error(400, f"target={wanted}: must be a node id")
        dry_run = request.query.get("dry_run", "false")
        if dry_run not in ("true", "false"):
            return _error(400, f"dry_run={dry_run[:_SHOWN_CHARACTERS]}: must be true or false")
        is_dry_run, node_id = dry_run == "true", self._node.options.node_id
        leader = self._node.leadership.leader_of(topic.group(number))
        if leader is not None and target == leader.node_id and self._node.is_alive(leader.node_id):
            # Who got no answer asks again.
            return _transferred(number, leader.node_id, leader.node_id, leader.term, is_dry_run=is_dry_run)
        partition = self._node.partitions.get(topic.group(number))
        if partition is None or not partition.is_in_office:
            where = "nobody leads it now" if leader is None else f"node {leader.node_id} does"
            return _error(409, f"node {node_id} does not lead {topic.name}-{number}: {where}")
        wanted_node = None if target is None else NodeId(target)
        try:
            if is_dry_run:
                leader_then = partition.check_transfer(wanted_node)
            else:
                leader_then = await partition.transfer_to(wanted_node)
        except TransferTargetError as error:
            return _error(400, str(error))
        except TransferTimedOutError as error:
            return _error(504, str(error))
        except RaftError as error:
            return _error(409, str(error))
        return _transferred(number, node_id, leader_then, partition.leader_epoch, is_dry_run=is_dry_run)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        if self._scrapes is None:
            raise web.HTTPNotFound
        return await self._scrapes.answer(request)


def parse_number(text: str) -> int | None:
    """Return the partition or node id that a request names; None if the text is no number from 0 to 2**31 - 1."""
    # Python refuses to read more than some thousand digits, with another error.
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        return None
    return found if (found := int(text)) < 2**31 else None


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)


def _transferred(number: int, before: int, then: int, term: int, *, is_dry_run: bool) -> web.Response:
    """Return what a transfer has come to: who led, and who leads then; a transfer that is answered is over."""
    told = {"partition": number, "leader_before": before, "leader": then, "term": term}
    return web.json_response({"dry_run": is_dry_run, "waits_for": "", **told})


def _is_about_this_broker(record: logging.LogRecord) -> bool:
    """Drop what aiohttp logs, with a traceback, of each malformed request: strangers must not fill the log."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def _positions(status: ReplicaStatus) -> dict[str, object]:
    return {
        "node_id": status.node_id,
        "role": status.role,
        "term": status.term,
        "refilling": status.refilling,
        "dirty": _mark(status.dirty),
        "flushed": _mark(status.flushed),
        "commit": _mark(status.commit),
        "visible": _mark(status.visible),
        "compaction": _compaction(status.compaction),
    }


def _compaction(status: CompactionStatus | None) -> dict[str, object] | None:
    if status is None:
        return None
    cleaned = _mark(status.cleaned)
    return {"cleaned": cleaned, "dirty_bytes": status.dirty_bytes, "held_bytes": status.held_bytes}


def _mark(mark: Mark) -> dict[str, int]:
    return {"index": mark.log_index, "offset": mark.offset}
