"""Which requests the admin port refuses: raw requests over sockets, to the port of a node that leads a partition."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest

from cluster.partition_status import PartitionStatusReader
from raftka.broker.admin_http import AdminHttp
from raftka.broker.admin_listener import AdminListener
from raftka.broker.application import admin_names
from raftka.broker.stall_watch import StallWatch
from raftka.broker.starting import Starting
from raftka.config import load_config
from tests.unit.cluster.cluster_nodes import Cluster, run

NAMES = ("broker-1.example.com", "10.1.2.3", "fd00::7")
TRANSFER = "/v1/partitions/t/0/transfer_leadership?target=1"


@asynccontextmanager
async def _admin_port(tmp_path, address="127.0.0.1", names=NAMES):
    """Yield the port of a single node that leads t-0: a transfer that gets through answers that it leads."""
    cluster = Cluster(tmp_path, 1)
    await cluster.start()
    node = cluster[1]
    listener = AdminListener(16)
    statuses = PartitionStatusReader(node.links, node.partitions, node.options.node_id)
    admin = AdminHttp(Starting(1), listener, names)
    admin.serve(node, statuses, StallWatch(node))
    try:
        await cluster.create_topic("t")
        await admin.start(address, 0)
        yield listener.port
    finally:
        await admin.stop()
        await cluster.stop()


async def _ask(port, headers, **options):
    """Send a request with exactly these header lines; return (status, body)."""
    head, _, body = (await _raw(port, headers, **options)).partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


async def _raw(port, headers, *, method="GET", target="/v1/brokers", at="127.0.0.1"):
    reader, writer = await asyncio.open_connection(at, port)
    try:
        lines = [f"{method} {target} HTTP/1.1", *headers, "Connection: close", "Content-Length: 0"]
        writer.write("".join(f"{line}\r\n" for line in [*lines, ""]).encode())
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        writer.transport.abort()


def _asked(tmp_path, *requests, address="127.0.0.1", names=NAMES):
    """Return the (status, body) of each request, the keyword arguments of `_ask`."""

    answers = []

    async def test():
        async with _admin_port(tmp_path, address, names) as port:
            for headers, options in requests:
                answers.append(await _ask(port, [line.replace("PORT", str(port)) for line in headers], **options))

    run(test)
    return answers


def test_a_host_of_this_port_is_answered(tmp_path):
    hosts = [
        *("127.0.0.1:PORT", "127.0.0.1", "127.8.9.1:1", "localhost:PORT", "LOCALHOST", "localhost.", "[::1]:PORT"),
        *("[::ffff:127.0.0.1]:PORT", "Broker-1.example.com:PORT", "10.1.2.3:9644", "[FD00:0::7]:9644", "127.0.0.1:"),
    ]
    found = _asked(tmp_path, *(([f"Host: {host}"], {}) for host in hosts))
    assert {host: status for host, (status, _) in zip(hosts, found, strict=True)} == dict.fromkeys(hosts, 200)


@pytest.mark.parametrize("target", ["/v1/brokers", "/metrics", "/v1/status/ready", "/nowhere"])
def test_a_name_that_a_page_had_resolved_to_this_address_is_refused_and_the_cure_is_named(tmp_path, target):
    hosts = [
        *("evil.example", "evil.example:PORT", "127.0.0.1.evil.example:PORT", "localhost.evil.example", "0.0.0.0:PORT"),
        *("10.1.2.4:PORT", "[fd00::8]:PORT", "xbroker-1.example.com", "2130706433", "[::]:PORT"),
    ]
    found = _asked(tmp_path, *(([f"Host: {host}"], {"target": target}) for host in hosts))
    for host, (status, body) in zip(hosts, found, strict=True):
        assert status == 403, host
        assert host.removesuffix(":PORT") in body["error"]
        assert "admin.allowed.hosts" in body["error"]


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (["Host:"], "neither a host name nor an IP address"),
        (["Host: user@127.0.0.1"], "neither a host name nor an IP address"),
        (["Host: 127.0.0.1/evil"], "neither a host name nor an IP address"),
        (["Host: ::1"], "neither a host name nor an IP address"),
    ],
)
def test_a_host_that_cannot_be_read_is_refused(tmp_path, headers, words):
    ((status, body),) = _asked(tmp_path, (headers, {}))
    assert (status, words in body["error"]) == (400, True), body


@pytest.mark.parametrize(
    "headers", [[], ["Host: 127.0.0.1", "Host: 127.0.0.1"], ["Host: 127.0.0.1", "host: evil.example"]]
)
def test_a_request_without_a_host_or_with_two_is_refused(tmp_path, headers):
    async def test():
        async with _admin_port(tmp_path) as port:
            answer = await _raw(port, headers)
            # Either aiohttp's parser says it, or AdminAccess.
            assert answer.split()[1] == b"400"
            assert b"host" in answer.lower()

    run(test)


def test_a_target_that_overrules_the_host_is_refused(tmp_path):
    ((status, body),) = _asked(tmp_path, (["Host: 127.0.0.1"], {"target": "http://evil.example/v1/brokers"}))
    assert (status, "is no path" in body["error"]) == (400, True), body


def test_a_wildcard_answers_to_the_address_that_a_client_came_to_and_to_the_advertised_name(tmp_path):
    config = load_config(
        {
            "node.id": 1,
            "admin.address": "0.0.0.0",
            "kafka.advertised.address": "kafka.example.com",
            "admin.allowed.hosts": "ops.example.com, 10.9.9.9",
            "insecure": True,
        }
    )
    at = _other_address()
    found = _asked(
        tmp_path,
        *(
            ([f"Host: {host}"], {"at": at})
            for host in (f"{at}:PORT", "kafka.example.com", "ops.example.com", "10.9.9.9")
        ),
        *(([f"Host: {host}"], {"at": at}) for host in ("0.0.0.0:PORT", "10.9.9.8", "example.com")),
        address="0.0.0.0",
        names=admin_names(config),
    )
    assert [status for status, _ in found] == [200] * 4 + [403] * 3


def _other_address():
    """Return an address of this machine off loopback; 127.0.0.1 where there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: the kernel picks the interface.
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return probe.getsockname()[0]


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (["Sec-Fetch-Site: cross-site"], "Sec-Fetch-Site: 'cross-site'"),
        (["Sec-Fetch-Site: same-site"], "Sec-Fetch-Site: 'same-site'"),
        (["Sec-Fetch-Site: none", "Sec-Fetch-Site: cross-site"], "Sec-Fetch-Site: 'cross-site'"),
        (["Origin: http://evil.example"], "a web page of 'http://evil.example'"),
        (["Origin: null"], "a web page of 'null'"),
        (["Origin: http://127.0.0.1:1"], "its Origin is not the Host"),
        (["Origin: http://localhost:PORT"], "its Origin is not the Host"),
        (["Origin: file://127.0.0.1:PORT"], "its Origin is not the Host"),
        (["Origin: http://127.0.0.1:PORT", "Origin: http://evil.example"], "its Origin is not the Host"),
        (["Sec-Fetch-Site: same-origin", "Origin: http://evil.example"], "its Origin is not the Host"),
    ],
)
def test_no_web_page_of_another_site_moves_a_leader(tmp_path, headers, words):
    lines = ["Host: 127.0.0.1:PORT", *headers]
    found = _asked(tmp_path, (lines, {"method": "POST", "target": TRANSFER}), (lines, {}))
    (status, body), (read_status, _) = found
    assert (status, words in body["error"]) == (403, True), body
    # A link in a page of another site may lead here; a page's own request says from where it comes.
    assert read_status == (403 if any(line.startswith("Origin:") for line in lines) else 200)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "PROPFIND"])
def test_every_method_that_is_not_known_to_be_safe_is_held_to_that(tmp_path, method):
    ((status, _),) = _asked(tmp_path, (["Host: localhost", "Origin: http://evil.example"], {"method": method}))
    assert status == 403


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["Sec-Fetch-Site: none"],
        ["Sec-Fetch-Site: same-origin", "Origin: http://127.0.0.1:PORT"],
        ["Origin: https://127.0.0.1:PORT"],
    ],
)
def test_a_tool_and_a_page_of_this_port_itself_reach_the_transfer(tmp_path, headers):
    lines = ["Host: 127.0.0.1:PORT", *headers]
    ((status, body),) = _asked(tmp_path, (lines, {"method": "POST", "target": TRANSFER}))
    assert (status, body["leader_before"], body["leader"]) == (200, 1, 1), body
