"""Verbs: what operators let the cluster do by the admin port, with JSON in and out (`verb_table` has all).

A `Read` is a GET and changes nothing. A `Change` is a POST; its body is a JSON object, an instance of a `Changing`:

- `dry_run`: everything is checked, at raft0's leader too, and nothing is changed.
- `timeout`: seconds for the answer of raft0's leader, to which any broker forwards what only that one decides.

A change is idempotent: who got no answer sends the same request again. Its answer has `dry_run`, `waits_for` (what the
action that was begun still waits for, empty if nothing), and what the verb tells. A refusal has a status from 400 on,
and {"error": NAME, "message": TEXT}; the names are those of Kafka's error codes where there is one.

Who reaches the admin port may read. A change is taken from the broker's own machine only, unless
`admin.remote.changes.enable` is set: the port has no login, and monitoring reaches it from elsewhere
(docs/operations/exposure.md). The body must be called application/json, which no form of a web page can send.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from aiohttp import web

from cluster.errors import ClusterError, ControllerUnavailableError, FeatureLevelError
from cluster.node import Node
from kafka_api.error_mapping import error_code
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import Index, NodeId
from raftka.broker.admin_access import is_from_this_machine

REMOTE_CHANGES = "admin.remote.changes.enable"
# The name of the refusal of a change that comes from another machine.
REMOTE = "REMOTE_CHANGE"
BODY_BYTES_MAX = 1024 * 1024
# Requests that run at once, each with a body at most.
VERBS_MAX = 16
_BODY_SECONDS = 10.0
# For what a verb does besides asking raft0's leader.
_GRACE_SECONDS = 5.0
_SHOWN_CHARACTERS = 200
_logger = logging.getLogger("broker")
_STATUSES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: HTTPStatus.CONFLICT,
    ErrorCode.UNSUPPORTED_VERSION: HTTPStatus.CONFLICT,
    ErrorCode.FEATURE_UPDATE_FAILED: HTTPStatus.CONFLICT,
    ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ErrorCode.POLICY_VIOLATION: HTTPStatus.CONFLICT,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: HTTPStatus.CONFLICT,
    ErrorCode.REQUEST_TIMED_OUT: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.NOT_CONTROLLER: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}


class VerbError(Exception):
    """A verb refuses: status, name of the error, text, and what else the answer has."""

    def __init__(self, status: int, name: str, message: str, details: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.name = name
        self.details = details or {}


class Changing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the body of every change may have; those of the verbs inherit it."""

    dry_run: bool = False
    timeout: Annotated[float, msgspec.Meta(ge=0.1, le=60.0)] = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change has come to.

    Attributes:
        waits_for: What the action still waits for, in words; empty: it is done, or there was nothing to do.
        told: The rest of the answer.
        applied_index: Of raft0: the answer is given once this broker has applied as much, so that whoever asks it next
            sees the change.
    """

    waits_for: str = ""
    told: Mapping[str, object] = field(default_factory=dict)
    applied_index: int = 0


@dataclass(frozen=True, slots=True)
class Read:
    """A GET: `run` gets the node, the parts of the path and the parameters, and returns what JSON can say.

    `parameters` are the names that it takes; each at most once.
    """

    path: str
    run: Callable[[Node, Mapping[str, str]], Awaitable[object]]
    parameters: tuple[str, ...] = ()


Body = TypeVar("Body", bound=Changing)


@dataclass(frozen=True, slots=True)
class Change(Generic[Body]):
    """A POST: `run` gets the node, the body, and the parts of the path.

    It raises VerbError or ClusterError for what it refuses.
    """

    path: str
    body: type[Body]
    run: Callable[[Node, Body, Mapping[str, str]], Awaitable[Outcome]]


Verb = Read | Change[Any]


class AdminVerbs:
    """Runs verbs for the admin port.

    Args:
        verbs: All of them; a path may have a Read and a Change.
        takes_remote_changes: Also changes from other machines are taken.
    """

    def __init__(self, verbs: Sequence[Verb], *, takes_remote_changes: bool) -> None:
        self._verbs = verbs
        self._takes_remote_changes = takes_remote_changes
        self._under_way = 0

    def route(self, router: web.UrlDispatcher, node: Callable[[], Node]) -> None:
        """Add the routes; `node` returns the node once it has started."""
        for verb in self._verbs:
            if isinstance(verb, Read):
                router.add_get(verb.path, self._reading(verb, node))
            else:
                router.add_post(verb.path, self._changing(verb, node))

    def parameters(self) -> dict[str, tuple[str, ...]]:
        """Return the parameters of the paths that have a Read."""
        return {verb.path: verb.parameters for verb in self._verbs if isinstance(verb, Read)}

    def _reading(self, verb: Read, node: Callable[[], Node]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def read(request: web.Request) -> object:
            for name in request.query:
                if len(request.query.getall(name)) > 1:
                    raise VerbError(400, ErrorCode.INVALID_REQUEST.name, f"parameter {name!r} is given twice")
            async with asyncio.timeout(_GRACE_SECONDS):
                return await verb.run(node(), {**request.query, **request.match_info})

        async def answer(request: web.Request) -> web.Response:
            return await self._answer(read(request))

        return answer

    def _changing(
        self, verb: Change[Any], node: Callable[[], Node]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def change(request: web.Request) -> object:
            self._check_origin(request)
            body = await _read(request, verb.body)
            outcome = await _run(verb, node(), body, request)
            return {"dry_run": body.dry_run, "waits_for": outcome.waits_for, **outcome.told}

        async def answer(request: web.Request) -> web.Response:
            return await self._answer(change(request))

        return answer

    async def _answer(self, work: Coroutine[Any, Any, object]) -> web.Response:
        """Return what `work` returns, or refuses, as JSON; refuse it if VERBS_MAX run."""
        if self._under_way >= VERBS_MAX:
            work.close()
            return _refusal(VerbError(429, "TOO_MANY_REQUESTS", f"{VERBS_MAX} verbs run already: try again"))
        self._under_way += 1
        try:
            return _json(await work)
        except VerbError as error:
            return _refusal(error)
        except ClusterError as error:
            return _refusal(refusal_of(error))
        except TimeoutError:
            return _refusal(VerbError(504, ErrorCode.REQUEST_TIMED_OUT.name, "no answer in time: send it again"))
        finally:
            self._under_way -= 1

    def _check_origin(self, request: web.Request) -> None:
        if not self._takes_remote_changes and not is_from_this_machine(request):
            raise VerbError(
                403,
                REMOTE,
                f"{request.path} changes the cluster, and comes from another machine: run it on a broker's machine, or"
                f" set {REMOTE_CHANGES}=true on this broker and let only operators reach its admin port",
            )
        if request.query:
            raise VerbError(400, ErrorCode.INVALID_REQUEST.name, "a change takes its parameters in the body only")


async def _run(verb: Change[Any], node: Node, body: Changing, request: web.Request) -> Outcome:
    outcome: Outcome
    try:
        async with asyncio.timeout(body.timeout + _GRACE_SECONDS):
            outcome = await verb.run(node, body, dict(request.match_info))
    except FeatureLevelError as error:
        if node.is_registered.is_set():
            raise
        # It has yet to read raft0's log, which may have raised the level long ago.
        raise ControllerUnavailableError(
            "this broker has not registered with raft0 since its start, and may not know the cluster's features yet:"
            " send it again, or to another broker"
        ) from error
    if not body.dry_run:
        _logger.info("%s %s from %s: accepted", request.method, request.path, request.remote)
    if not await until_known(node, outcome.applied_index):
        _logger.info("%s: this broker has not applied the change yet", request.path)
    return outcome


async def _read(request: web.Request, kind: type[Body]) -> Body:
    """Return the body of a change; raises VerbError for one that is too large, too slow, or another one."""
    if request.content_type != "application/json":
        raise VerbError(415, "UNSUPPORTED_MEDIA_TYPE", "the body must be JSON: send Content-Type: application/json")
    found = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while piece := await request.content.readany():
                found += piece
                if len(found) > BODY_BYTES_MAX:
                    raise VerbError(413, "REQUEST_TOO_LARGE", f"the body has more than {BODY_BYTES_MAX} bytes")
    except TimeoutError as error:
        raise VerbError(408, "REQUEST_TIMEOUT", f"the body did not come within {_BODY_SECONDS:g} s") from error
    try:
        return msgspec.json.decode(found or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"the body is not what {request.path} takes: {error}"
        raise VerbError(400, ErrorCode.INVALID_REQUEST.name, message[:_SHOWN_CHARACTERS]) from error


async def until_known(node: Node, index: int) -> bool:
    """Wait until this broker has applied raft0's log up to `index`, for a while; return whether it has.

    If it has not, the change is made all the same, and only this broker lags.
    """
    try:
        async with asyncio.timeout(_GRACE_SECONDS):
            await node.controller.wait_applied(Index(index))
    except TimeoutError:
        return False
    return True


def brokers_away(node: Node, only: NodeId | None = None) -> str:
    """Return, as what a change waits for, the registered brokers that do not answer; empty: all do.

    Args:
        node: Who looks.
        only: The change is about this broker alone.
    """
    registered = (NodeId(broker.node_id) for broker in node.controller.members.all())
    away = [each for each in registered if only in (None, each) and not node.is_alive(each)]
    names = ", ".join(map(str, away))
    return f"broker{'s' if len(away) > 1 else ''} {names} to come back: it holds there, too, from then on" * bool(away)


def refusal_of(error: ClusterError, details: Mapping[str, object] | None = None) -> VerbError:
    """Return how a verb tells what the cluster refuses: by Kafka's name."""
    return refusal_by(error_code(error), str(error), details)


def refusal_by(code: ErrorCode, message: str, details: Mapping[str, object] | None = None) -> VerbError:
    """Return how a verb refuses by one of Kafka's names."""
    return VerbError(_STATUSES.get(code, HTTPStatus.BAD_REQUEST), code.name, message, details)


def _refusal(error: VerbError) -> web.Response:
    return _json({**error.details, "error": error.name, "message": str(error)}, error.status)


def _json(document: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(document), status=status, content_type="application/json")
