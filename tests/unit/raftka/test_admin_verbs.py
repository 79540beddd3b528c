"""Verbs of the admin port: who may ask, what a body may be, and how refusals look."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from cluster.errors import FeatureLevelError, NoReassignmentError
from cluster.partition_status import PartitionStatusReader
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.admin_verbs import BODY_BYTES_MAX, VERBS_MAX, AdminVerbs, Change, Changing, Outcome, Read, VerbError
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import Starting
from tests.unit.cluster.cluster_nodes import Cluster, run


class _Count(Changing, frozen=True, kw_only=True):
    by: int


async def _count(_, body, path):
    if body.by < 0:
        raise VerbError(400, "NEGATIVE", "by must be 0 or more", {"by": body.by})
    if body.by == 0:
        raise NoReassignmentError("nothing to count")
    return Outcome("the others", {"counted": path["what"], "by": body.by})


async def _needs_level(*_):
    raise FeatureLevelError("counts need a level that the cluster has not")


async def _show(_, asked):
    return {"shown": asked}


async def _hang(_, __):
    await asyncio.Event().wait()


VERBS = (
    Read("/v1/counts/{what}", _show, ("from",)),
    Change("/v1/counts/{what}", _Count, _count),
    Change("/v1/levels", Changing, _needs_level),
    Read("/v1/hangs", _hang),
)


@asynccontextmanager
async def _port(tmp_path, **options):
    cluster = Cluster(tmp_path, 1)
    await cluster.start()
    node, listener = cluster[1], AdminListener(64)
    statuses = PartitionStatusReader(node.links, node.partitions, node.options.node_id)
    admin = AdminHttp(Starting(1), listener, verbs=AdminVerbs(VERBS, takes_remote_changes=False), **options)
    admin.serve(node, statuses, StallWatch(node))
    try:
        await admin.start("127.0.0.1", 0)
        yield listener.port, node
    finally:
        await admin.stop()
        await cluster.stop()


async def _ask(port, method, target, body=b"", *headers, kind="application/json"):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "Connection: close"]
        if method == "POST":
            lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        writer.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode() + body)
        async with asyncio.timeout(20):
            head, _, answer = (await reader.read()).partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(answer)
    finally:
        writer.transport.abort()


def _answers(tmp_path, *requests):
    found = []

    async def test():
        async with _port(tmp_path) as (port, _):
            found.extend([await _ask(port, *request[:4], **dict(request[4:])) for request in requests])

    run(test)
    return found


def test_a_change_tells_what_it_waits_for_and_whether_it_was_tried_only(tmp_path):
    done, tried = _answers(
        tmp_path,
        ("POST", "/v1/counts/sheep", b'{"by": 3}'),
        ("POST", "/v1/counts/sheep", b'{"by": 3, "dry_run": true, "timeout": 1}'),
    )
    assert done == (200, {"dry_run": False, "waits_for": "the others", "counted": "sheep", "by": 3})
    assert tried == (200, {"dry_run": True, "waits_for": "the others", "counted": "sheep", "by": 3})


def test_a_broker_that_has_not_read_raft0_since_its_start_refuses_no_level_for_good(tmp_path):
    """Chaos with members: a broker that had just started said that the cluster was at level 0."""
    found = []

    async def test():
        async with _port(tmp_path) as (port, node):
            async with asyncio.timeout(20):
                await node.is_registered.wait()
            found.append(await _ask(port, "POST", "/v1/levels", b"{}"))
            node.is_registered.clear()
            found.append(await _ask(port, "POST", "/v1/levels", b"{}"))

    run(test)
    (known, told), (unknown, reason) = found
    assert (known, told["error"]) == (409, "UNSUPPORTED_VERSION")
    assert unknown == 503
    assert "send it again" in reason["message"]


def test_a_read_gets_its_parameters_and_the_parts_of_its_path(tmp_path):
    found, unknown, twice = _answers(
        tmp_path,
        ("GET", "/v1/counts/sheep?from=2"),
        ("GET", "/v1/counts/sheep?form=2"),
        ("GET", "/v1/counts/sheep?from=2&from=3"),
    )
    assert found == (200, {"shown": {"from": "2", "what": "sheep"}})
    assert unknown[0] == 400
    assert (twice[0], twice[1]["error"]) == (400, "INVALID_REQUEST")


def test_what_a_verb_or_the_cluster_refuses_has_a_name_and_a_text(tmp_path):
    own, of_cluster = _answers(
        tmp_path, ("POST", "/v1/counts/sheep", b'{"by": -1}'), ("POST", "/v1/counts/sheep", b'{"by": 0}')
    )
    assert own == (400, {"by": -1, "error": "NEGATIVE", "message": "by must be 0 or more"})
    assert of_cluster == (409, {"error": "NO_REASSIGNMENT_IN_PROGRESS", "message": "nothing to count"})


@pytest.mark.parametrize(
    ("body", "status", "name", "words"),
    [
        (b"", 400, "INVALID_REQUEST", "by"),
        (b"[]", 400, "INVALID_REQUEST", "object"),
        (b'{"by": "3"}', 400, "INVALID_REQUEST", "int"),
        (b'{"by": 3, "dryrun": true}', 400, "INVALID_REQUEST", "dryrun"),
        (b'{"by": 3, "timeout": 1e9}', 400, "INVALID_REQUEST", "timeout"),
        (b'{"by": \xff}', 400, "INVALID_REQUEST", "body"),
        (b'{"by": ' + b"[" * 100_000, 400, "INVALID_REQUEST", "body"),
        (b" " * (BODY_BYTES_MAX + 1), 413, "REQUEST_TOO_LARGE", "bytes"),
    ],
)
def test_a_body_that_the_verb_does_not_take_is_refused(tmp_path, body, status, name, words):
    ((found, answer),) = _answers(tmp_path, ("POST", "/v1/counts/sheep", body))
    assert (found, answer["error"]) == (status, name)
    assert words in answer["message"]


def test_a_change_is_json_has_no_parameters_and_comes_from_no_page_of_another_site(tmp_path):
    plain, parameters, page = _answers(
        tmp_path,
        ("POST", "/v1/counts/sheep", b'{"by": 3}', "X: y", ("kind", "text/plain")),
        ("POST", "/v1/counts/sheep?from=1", b'{"by": 3}'),
        ("POST", "/v1/counts/sheep", b'{"by": 3}', "Sec-Fetch-Site: cross-site"),
    )
    assert (plain[0], plain[1]["error"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert (parameters[0], parameters[1]["error"]) == (400, "INVALID_REQUEST")
    assert page[0] == 403


def test_more_verbs_than_may_run_at_once_are_refused(tmp_path):
    async def test():
        async with _port(tmp_path) as (port, _):
            hanging = [asyncio.create_task(_ask(port, "GET", "/v1/hangs")) for _ in range(VERBS_MAX)]
            status, answer = 0, {}
            async with asyncio.timeout(4):
                while status != 429:
                    status, answer = await _ask(port, "GET", "/v1/counts/sheep")
            assert answer["error"] == "TOO_MANY_REQUESTS"
            assert {(status, answer["error"]) for status, answer in await asyncio.gather(*hanging)} == {
                (504, "REQUEST_TIMED_OUT")
            }
            assert (await _ask(port, "GET", "/v1/counts/sheep"))[0] == 200

    run(test)


class _Transport(asyncio.Transport):
    """A connection between two addresses, of which nothing but these is used."""

    def __init__(self, peer, here):
        super().__init__({"peername": (peer, 40_000), "sockname": (here, 9644)})

    def is_closing(self):
        return False


@pytest.mark.parametrize(
    ("peer", "here", "is_local"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.2", "10.0.0.1", False),
        ("fd00::2", "fd00::1", False),
    ],
)
def test_changes_from_other_machines_are_refused_unless_they_are_enabled(peer, here, is_local):
    async def asked(*, method, takes_remote_changes):
        application = web.Application()
        AdminVerbs(VERBS, takes_remote_changes=takes_remote_changes).route(application.router, lambda: None)
        path = "/v1/counts/sheep"
        request = make_mocked_request(method, path, {"Host": here}, transport=_Transport(peer, here))
        found = await application.router.resolve(request)
        request._match_info = found
        answer = await found.handler(request)
        return answer.status, json.loads(answer.body).get("error")

    async def test():
        refused = (403, "REMOTE_CHANGE")
        # What gets through ends at its body, which is not called JSON.
        taken = (415, "UNSUPPORTED_MEDIA_TYPE")
        assert await asked(method="POST", takes_remote_changes=False) == (taken if is_local else refused)
        assert await asked(method="POST", takes_remote_changes=True) == taken
        assert await asked(method="GET", takes_remote_changes=False) == (200, None)

    asyncio.run(test())
