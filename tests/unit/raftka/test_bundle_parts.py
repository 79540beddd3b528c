"""Parts of a bundle: what brokers, the machine and a dev cluster answer, or why there is nothing, all in time."""

import json
import os
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from raftka.cli.debug import _missing_lines
from raftka.debug import bundle
from raftka.debug.admin_parts import PATHS, add_admin_parts, other_admins
from raftka.debug.bundle import BundleRequest, make_bundle
from raftka.debug.bundle_file import BundleFile
from raftka.debug.deadlines import TimeBudget
from raftka.debug.dev_parts import log_end
from raftka.debug.errors import MissingPartError
from raftka.debug.machine_parts import add_machine_parts
from raftka.debug.secret_mask import SecretMask
from raftka.dev.cluster_file import ClusterFolder
from raftka.kafka import configs as kafka_configs
from tests.unit.raftka.foreign_brokers import LonelyBroker, free_address
from tests.unit.raftka.test_bundle_file import written

NOBODY = "127.0.0.1:1"

Serve = Callable[[dict[str, tuple[int, bytes]]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return what starts a server with these answers by path, and returns its address; other paths are 404."""
    with ExitStack() as stack:

        def start(answers: dict[str, tuple[int, bytes]]) -> str:
            class Handler(BaseHTTPRequestHandler):
                found: ClassVar = answers

                def do_GET(self) -> None:
                    status, body = self.found.get(self.path, (404, b"{}"))
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_: object) -> None:
                    pass

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"127.0.0.1:{server.server_address[1]}"

        yield start


def parts_of(path: Path, add: Callable[[BundleFile, TimeBudget], None], *, seconds: float = 30.0) -> dict[str, Any]:
    """Return what the manifest says of the parts that `add` adds."""
    with BundleFile(path, SecretMask()) as bundle:
        add(bundle, TimeBudget(seconds))
        bundle.finish({})
    return {part["file"]: part for part in written(path)["parts"]}


def admin_parts_of(path: Path, address: str, *, seconds: float = 30.0) -> dict[str, Any]:
    return parts_of(path, lambda bundle, budget: add_admin_parts(bundle, budget, "b", address), seconds=seconds)


def test_the_admin_port_of_a_broker_is_asked_and_a_page_that_it_lacks_is_missing(tmp_path: Path, serve: Serve) -> None:
    address = serve(
        {
            "/v1/status/ready": (503, b'{"ready": false, "reason": "raft0 has no leader"}'),
            "/v1/events": (200, b'{"events": []}'),
            "/v1/bounds": (403, b"no <html>\n"),
            "/v1/brokers": (200, b"not json"),
            "/metrics": (200, b"raftka_x 1\n"),
        }
    )
    parts = admin_parts_of(tmp_path / "b.zip", address)
    assert list(parts) == [f"b/{name}" for name, _ in PATHS]
    assert parts["b/ready.json"]["http_status"] == 503
    assert parts["b/live.json"]["missing"] == "HTTP 404: this broker has no such page"
    assert parts["b/bounds.json"]["missing"] == "HTTP 403: no <html>"
    assert parts["b/brokers.json"]["missing"] == "HTTP 200: not json"
    assert parts["b/metrics.txt"]["bytes"] == len(b"raftka_x 1\n")


def test_a_broker_that_does_not_answer_is_asked_once(tmp_path: Path) -> None:
    reasons = [part["missing"] for part in admin_parts_of(tmp_path / "b.zip", NOBODY).values()]
    assert reasons[0].startswith(f"admin port {NOBODY}: ")
    assert all(each == f"not asked for: {reasons[0]}" for each in reasons[1:])


def test_a_broker_that_does_not_answer_costs_one_line() -> None:
    silence = "admin port b:1: no answer"
    missing = [("brokers/3/ready.json", silence), *((f"brokers/3/{n}", f"not asked for: {silence}") for n in range(6))]
    assert _missing_lines([*missing, ("doctor.json", "HTTP 404")]) == [
        f"missing brokers/3/ready.json and 6 more: {silence}",
        "missing doctor.json: HTTP 404",
    ]
    many = _missing_lines([(f"b/{n}", str(n // 2)) for n in range(24)])
    assert len(many) == 11
    assert many[-1] == "missing 4 more: manifest.json in the file says why"


def test_a_broker_that_hangs_takes_no_more_time_than_is_left(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        parts = admin_parts_of(tmp_path / "b.zip", f"127.0.0.1:{silent.getsockname()[1]}", seconds=0.3)
    assert "no answer within" in parts["b/ready.json"]["missing"]


def test_metrics_that_are_too_long_are_cut_at_a_line_and_json_is_left_out(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BundleFile, "room", 1004)
    address = serve({"/metrics": (200, b"x_total 1\n" * 200), "/v1/events": (200, b"[" + b"1," * 1000 + b"1]")})
    parts = admin_parts_of(tmp_path / "b.zip", address)
    metrics = parts["b/metrics.txt"]
    assert (metrics["bytes"], metrics["cut"]) == (1000, "the end, behind the first 1000 bytes")
    assert parts["b/events.json"]["missing"] == "the answer has more than 1004 bytes"


@pytest.mark.parametrize("body", [b"[]", b"{}", b'[{"node_id": "x"}, 5, {"admin": "h:1"}]', b"[" * 100_000])
def test_a_strange_list_of_brokers_names_none(serve: Serve, body: bytes) -> None:
    assert other_admins(TimeBudget(10.0), [NOBODY, serve({"/v1/brokers": (200, body)})]) == {}


def test_the_brokers_that_one_broker_knows_are_found(serve: Serve) -> None:
    body = json.dumps([{"node_id": 2, "admin": "h:2"}, {"node_id": 1, "admin": "h:1"}]).encode()
    assert other_admins(TimeBudget(10.0), [NOBODY, serve({"/v1/brokers": (200, body)})]) == {1: "h:1", 2: "h:2"}


def test_work_that_fails_says_why_and_work_that_hangs_is_left() -> None:
    budget = TimeBudget(30.0)
    assert budget.run(5.0, lambda: 5) == 5
    with pytest.raises(MissingPartError, match="No such file"):
        budget.run(5.0, lambda: Path("/no/such/file").read_text())
    hanging = threading.Event()
    with pytest.raises(MissingPartError, match="no answer within 0 s"):
        budget.run(0.05, hanging.wait)
    hanging.set()


def test_works_that_run_at_once_share_their_time_and_each_has_its_outcome() -> None:
    hanging = threading.Event()
    first, second, third = TimeBudget(30.0).run_all(0.2, [hanging.wait, hanging.wait, lambda: True])
    hanging.set()
    assert isinstance(first, MissingPartError)
    assert isinstance(second, MissingPartError)
    assert third is True


def test_after_the_time_is_over_nothing_is_begun() -> None:
    budget = TimeBudget(0.0)
    with pytest.raises(MissingPartError, match="the 0 s of this bundle were over"):
        budget.run(5.0, lambda: pytest.fail("it was begun"))


def test_the_machine_is_described_and_a_folder_that_is_gone_says_so(tmp_path: Path) -> None:
    folders = [tmp_path, tmp_path / "gone"]
    parts_of(tmp_path / "b.zip", lambda bundle, budget: add_machine_parts(bundle, budget, folders))
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        disks = json.loads(archive.read("machine/disks.json"))
        assert disks[0]["free_bytes"] > 0
        assert disks[1]["error"] == "No such file or directory"
        assert json.loads(archive.read("machine/versions.json"))["packages"]["click"]
        assert json.loads(archive.read("machine/kernel.json"))["release"] == os.uname().release
        assert b"Max open files" in archive.read("machine/limits.txt")


@pytest.mark.parametrize(
    ("content", "bytes_max", "shown"),
    [
        (b"", 10, b""),
        (b"one\ntwo\n", 8, b"one\ntwo\n"),
        (b"one\ntwo\n", 7, b"two\n"),
        (b"one\ntwo\n", 4, b"two\n"),
        (b"one\ntwo\n", 3, b""),
        (b"one\ntw", 2, b"tw"),
        (b"a line without an end", 5, b""),
    ],
)
def test_the_end_of_a_log_begins_with_a_line(tmp_path: Path, content: bytes, bytes_max: int, shown: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert log_end(path, bytes_max) == (shown, len(content))


def test_without_any_broker_a_bundle_says_so_and_has_the_machine(tmp_path: Path) -> None:
    out = tmp_path / "b.zip"
    made = make_bundle(BundleRequest(out, NOBODY, ["localhost:1"], ClusterFolder(tmp_path / "none"), False, 60.0))
    assert made.size == out.stat().st_size
    parts = {part["file"]: part for part in written(out)["parts"]}
    assert "no Kafka broker answers" in parts["cluster/topics.json"]["missing"]
    assert "--admin" not in parts["brokers/localhost-1/ready.json"]["missing"]
    assert parts["doctor.json"]["exit_code"] == 1
    assert parts["machine/kernel.json"]["bytes"] > 0


def _parts_of_brokers(tmp_path: Path, brokers: str) -> dict[str, str]:
    """Return why parts of brokers are missing, as the manifest of a bundle says."""
    out = tmp_path / "b.zip"
    make_bundle(BundleRequest(out, brokers, [], ClusterFolder(tmp_path / "none"), False, 60.0))
    return {part["file"]: part.get("missing", "") for part in written(out)["parts"] if "brokers/" in part["file"]}


def test_where_nobody_answers_the_option_that_names_an_admin_port_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "ADMIN_PORT", 1)
    reason = _parts_of_brokers(tmp_path, NOBODY)["brokers/127.0.0.1-1/ready.json"]
    assert reason.endswith("Connection refused; name its admin port with --admin")


def test_the_admin_port_of_a_broker_without_a_controller_is_asked_for_by_its_node_id(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = serve({"/v1/status/live": (200, b"{}")})
    asked: list[tuple[int, str, str]] = []

    def read_option(node_id: int, address: str, key: str) -> str:
        asked.append((node_id, address, key))
        return f"http://{admin}"

    survivor = LonelyBroker()
    try:
        survivor.brokers = {3: survivor.address, 4: free_address(), 5: free_address()}
        # It hangs up on DescribeConfigs, as another Kafka may.
        reasons = _parts_of_brokers(tmp_path, survivor.address)
        assert reasons == {
            "brokers/3/ready.json": "broker 3 does not tell its admin port: name its admin port with --admin"
        }
        monkeypatch.setattr(kafka_configs, "read_option", read_option)
        (tmp_path / "b.zip").unlink()
        reasons = _parts_of_brokers(tmp_path, survivor.address)
        assert asked == [(3, survivor.address, "admin.advertised.listener")]
        assert not reasons["brokers/3/live.json"]
        assert not [part for part in reasons if not part.startswith("brokers/3/")]
    finally:
        survivor.close()
