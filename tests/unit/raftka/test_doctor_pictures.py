"""What `raftka doctor` makes of admin ports: of brokers that start, that are refused, and that are of another version."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from raftka.cli import cluster_picture
from raftka.cli.admin_picture import (
    KnownBroker,
    ask_one,
    merge_known,
    read_details,
    read_fills,
    read_known_brokers,
    read_readiness,
)
from raftka.cli.root import run
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState
from raftka.dev.ports import BrokerAddresses
from raftka.health.findings import Finding, Level, to_json
from raftka.health.picture import RATE_KEYS, THROTTLED_KEYS, BrokerPicture
from raftka.health.rules import judge
from raftka.kafka import client as kafka_client
from raftka.kafka import configs as kafka_configs
from raftka.kafka.client import ClusterInfo, PartitionInfo
from raftka.kafka.configs import ConfigValue
from raftka.kafka.errors import KafkaClientError, NoBrokerError
from raftka.kafka.probe import Reply, probe_all

NOBODY = "127.0.0.1:1"
READY = "/v1/status/ready"
WAITS = (503, {"ready": False, "node_id": 2, "reason": "raft0 has no leader", "cure": "start brokers 1 and 3"})
Answers = dict[str, tuple[int, Any]]
Serve = Callable[[Answers], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts an admin port with these answers, by path, and returns its address."""
    servers: list[ThreadingHTTPServer] = []

    def start(answers: Answers) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = answers.get(self.path, (404, "404: Not Found"))
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"127.0.0.1:{server.server_address[1]}"

    yield start
    for each in servers:
        each.shutdown()
        each.server_close()


@pytest.fixture(autouse=True)
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No dev cluster of this machine's user."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.delenv("RAFTKA_BROKERS", raising=False)
    return tmp_path / "share"


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> list[dict[str, Any]]:
    assert run(["doctor", "cluster", *arguments, "-f", "json"]) == code
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


def has_dev_cluster(data_home: Path, *brokers: tuple[str, str]) -> None:
    folder = ClusterFolder(data_home / "raftka" / "dev")
    folder.path.mkdir(parents=True)
    entries = [
        BrokerEntry(node, BrokerAddresses(kafka, "127.0.0.1:3", admin))
        for node, (kafka, admin) in enumerate(brokers, 1)
    ]
    folder.save(ClusterState(tuple(entries), ephemeral=False))


def test_readiness_has_the_reason_and_the_cure_of_the_broker(serve: Serve) -> None:
    found = read_readiness(serve({READY: WAITS}), BrokerPicture(2))
    assert (found.runs, found.is_ready, found.not_ready) == (True, False, "raft0 has no leader")
    assert found.cure == "start brokers 1 and 3"
    found = read_readiness(serve({READY: (503, {"ready": False, "reason": "a\nb"})}), BrokerPicture(2))
    assert (found.not_ready, found.cure) == ("a b", ""), "a broker of an older version names no cure"
    found = read_readiness(serve({READY: (200, {"ready": True})}), BrokerPicture(2))
    assert (found.runs, found.is_ready, found.not_ready) == (True, True, "")


def test_an_address_that_another_broker_has_taken_says_nothing_of_this_one(serve: Serve) -> None:
    admin = serve({READY: WAITS})
    found = read_readiness(admin, BrokerPicture(3))
    assert (found.node_id, found.runs, found.not_ready) == (3, False, "")
    assert found.admin_error == f"admin port {admin} is the one of broker 2"


@pytest.mark.parametrize("answers", [{}, {READY: (404, {})}, {READY: (200, [])}, {READY: (200, "hello")}])
def test_a_program_that_is_no_broker_is_none(serve: Serve, answers: Answers) -> None:
    found = read_readiness(serve(answers), BrokerPicture(2))
    assert found.runs is False
    assert found.admin_error.startswith("admin port 127.0.0.1:")


@pytest.mark.parametrize(
    "body", [None, [], {}, "x", [1], [{"name": "a"}], {"broker": 3}, {"broker": {"stalled": [1], "events_lost": "x"}}]
)
def test_answers_of_another_form_leave_things_unknown(serve: Serve, body: object) -> None:
    admin = serve(dict.fromkeys(("/v1/bounds", "/v1/brokers", "/v1/health"), (200, body)))
    assert read_fills(admin) == ()
    assert read_known_brokers(admin) == []
    broker, stalled = read_details(admin, BrokerPicture(2))
    assert (broker.version, broker.disk_spare_bytes, broker.events_lost, stalled) == ("", None, 0, [])
    assert ask_one(admin)[0].level is Level.PROBLEM, "it does not even say whether it is ready"


def test_what_only_the_broker_knows_comes_from_its_health(serve: Serve) -> None:
    own = {"version": "1.2", "disk_spare_bytes": -7, "stalled": [["t-x", 3]], "events_lost": 5, "events_span": 1.5}
    admin = serve({"/v1/health": (200, {"node_id": 1, "worst": "ok", "findings": [], "broker": own})})
    broker, stalled = read_details(admin, BrokerPicture(1))
    assert (broker.version, broker.disk_spare_bytes, broker.events_lost, broker.events_span) == ("1.2", -7, 5, 1.5)
    assert stalled == [("t-x", 3)]
    assert broker.transactions == ()
    assert broker.clock_offset is not None


def test_brokers_behind_a_wildcard_are_where_their_clients_are(serve: Serve) -> None:
    rows = [
        {"node_id": 1, "kafka": "h1:9092", "admin": "0.0.0.0:9644"},
        {"node_id": 2, "kafka": "[::1]:9092", "admin": "[::]:9645", "refused": "another\nsecret"}
        | {"refused_cure": "the\nsame", "refused_seconds": 4},
        {"node_id": 3, "kafka": "h3:9092", "admin": "ops.example.com:9644", "refused": None},
    ]
    assert read_known_brokers(serve({"/v1/brokers": (200, rows)})) == [
        KnownBroker(1, "h1:9092", "h1:9644"),
        KnownBroker(2, "[::1]:9092", "[::1]:9645", "another secret", "the same", 4.0),
        KnownBroker(3, "h3:9092", "ops.example.com:9644"),
    ]


def test_what_several_brokers_know_is_put_together() -> None:
    merged = merge_known([[KnownBroker(2, admin="a:1")], [KnownBroker(2, "k:1", "b:1", "refused"), KnownBroker(3)]])
    assert merged == {2: KnownBroker(2, "k:1", "a:1", "refused"), 3: KnownBroker(3)}


def test_one_broker_is_asked_for_its_findings(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding(Level.PROBLEM, "brokers", "broker 2 does not answer", "start it", "it does not run")
    health = {"node_id": 1, "worst": "problem", "findings": [to_json(finding)]}
    admin = serve({"/v1/health": (200, health)})
    assert told(capsys, "--admin", f"http://{admin}/") == [{"area": "cluster", **to_json(finding)}]


def test_one_broker_that_starts_says_what_it_waits_for(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    admin = serve({"/v1/health": (503, {"error": "starting"}), READY: WAITS})
    (found,) = told(capsys, "--admin", admin)
    assert (found["what"], found["words"]) == ("broker 2", "runs, but serves no clients: raft0 has no leader")
    assert found["cure"] == "start brokers 1 and 3"


def test_one_broker_of_an_older_version_is_ready_and_warned_of(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    (found,) = told(capsys, "--admin", serve({READY: (200, {"ready": True})}), code=0)
    assert found["level"] == "warning"
    assert "/v1/health did not answer JSON" in found["words"]
    assert "--brokers" in found["cure"]


def test_one_broker_that_is_not_there_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = told(capsys, "--admin", NOBODY)
    assert (found["level"], NOBODY in found["words"]) == ("problem", True)
    assert found["cure"].startswith("start the broker")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["machine", "--admin", NOBODY], "--admin"), (["--admin", "bogus"], "'bogus' is not HOST:PORT")],
)
def test_an_admin_port_that_makes_no_sense_is_refused(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", *arguments]) == 64
    assert named in capsys.readouterr().err


def no_kafka(*_: object) -> None:
    raise NoBrokerError("no Kafka broker answers")


def test_a_dev_broker_that_runs_is_told_from_one_that_is_to_be_started(
    serve: Serve, data_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_client, "read_cluster", no_kafka)
    has_dev_cluster(data_home, ("127.0.0.1:19", NOBODY), ("127.0.0.1:20", serve({READY: WAITS})))
    found = {each["what"]: each for each in told(capsys, "--brokers", "localhost:20")}
    assert found["brokers"]["words"] == "broker 1 at 127.0.0.1:19 does not answer"
    assert found["broker 2"]["words"] == "runs, but serves no clients at 127.0.0.1:20: raft0 has no leader"
    assert found["broker 2"]["cure"] == "start brokers 1 and 3"
    (found_elsewhere,) = told(capsys, "--brokers", "127.0.0.1:21")
    assert "no Kafka broker answers" in found_elsewhere["words"], "the file names no such address"


def test_a_dev_cluster_that_nobody_runs_is_to_be_started(
    data_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_client, "read_cluster", no_kafka)
    has_dev_cluster(data_home, ("127.0.0.1:19", NOBODY))
    (found,) = told(capsys, "--brokers", "127.0.0.1:19")
    assert (found["what"], "start the brokers" in found["cure"]) == ("brokers", True)


def test_a_damaged_file_of_a_dev_cluster_is_no_hint(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "read_cluster", no_kafka)
    has_dev_cluster(data_home, ("127.0.0.1:19", NOBODY))
    (data_home / "raftka" / "dev" / "cluster.json").write_text("{")
    with pytest.raises(NoBrokerError):
        cluster_picture.read_picture("127.0.0.1:19")


def test_a_silent_kafka_port_of_a_broker_that_others_know_is_explained(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting = serve({READY: WAITS})
    rows = [
        {"node_id": 1, "kafka": NOBODY, "admin": NOBODY, "alive": True, "refused": None},
        {"node_id": 2, "kafka": NOBODY, "admin": starting, "alive": False, "refused": "another data directory"},
        {"node_id": 3, "kafka": NOBODY, "admin": NOBODY, "alive": False, "refused": None},
    ]
    health = {"broker": {"stalled": [["t", 0]]}}
    well = serve({READY: (200, {"ready": True}), "/v1/brokers": (200, rows), "/v1/health": (200, health)})
    cluster = ClusterInfo("c", 1, {1: "127.0.0.1:9"}, {"t": [PartitionInfo(0, 1, [1, 2], [1])]})
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: cluster)
    replies = {"127.0.0.1:9": Reply.KAFKA}
    monkeypatch.setattr(
        cluster_picture, "probe_all", lambda given: {each: replies.get(each, Reply.UNREACHED) for each in given}
    )
    listener = ConfigValue("admin.advertised.listener", f"http://{well}", "broker", False, True)
    monkeypatch.setattr(kafka_configs, "read_configs", lambda *_: [listener])
    topic = [ConfigValue("min.insync.replicas", "2", "topic", False, False)]
    monkeypatch.setattr(kafka_configs, "read_topic_configs", lambda *_: {"t": topic})
    picture = cluster_picture.read_picture("127.0.0.1:9")
    found = [(each.what, each.words) for each in judge(picture) if each.level is Level.PROBLEM]
    assert found == [
        ("brokers", f"broker 3 at {NOBODY} does not answer"),
        ("broker 2", f"runs, but serves no clients at {NOBODY}: raft0 has no leader"),
        ("broker 2", "links with it are refused: another data directory"),
        ("replicas", "not in sync on broker 2: t-0"),
        ("writes", "acks=all is refused by t-0: min.insync.replicas is 2"),
        ("stalled", "the newest entries are not committed for 10 s: t-0"),
    ]


def seen_by_kafka(monkeypatch: pytest.MonkeyPatch, admin: str, *configs: ConfigValue, topic: ConfigValue) -> None:
    """Let Kafka clients see broker 1 at 127.0.0.1:9, its admin port, and these configurations."""
    cluster = ClusterInfo("c", 1, {1: "127.0.0.1:9"}, {"t": [PartitionInfo(0, 1, [1], [1])]})
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: cluster)
    monkeypatch.setattr(
        cluster_picture,
        "probe_all",
        lambda given: {each: Reply.KAFKA if each == "127.0.0.1:9" else Reply.UNREACHED for each in given},
    )
    listener = ConfigValue("admin.advertised.listener", f"http://{admin}", "broker", False, True)
    monkeypatch.setattr(kafka_configs, "read_configs", lambda *_: [listener, *configs])
    monkeypatch.setattr(kafka_configs, "read_topic_configs", lambda *_: {"t": [topic]})


def member_row(node: int, **changes: object) -> dict[str, object]:
    row = {"node_id": node, "kafka": f"127.0.0.1:{9 if node == 1 else node}", "admin": NOBODY, "refused": None}
    told = {"state": "active", "state_seconds": 1.0, "idle_seconds": 0.0, "directory_retired": False, "replicas": 0}
    return {**row, **told, "raft0": "voter", **changes}


def test_a_broker_that_was_removed_is_not_missed_though_the_file_of_a_dev_cluster_has_it(
    serve: Serve, data_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Answers = {READY: (200, {"ready": True}), "/v1/brokers": (200, [member_row(1)])}
    well = serve(answers)
    removed = serve({READY: (503, {"ready": False, "node_id": 3, "reason": "broker 3 was removed", "cure": "stop it"})})
    has_dev_cluster(data_home, ("127.0.0.1:9", well), ("127.0.0.1:19", NOBODY), ("127.0.0.1:20", removed))
    plain = ConfigValue("min.insync.replicas", "1", "default", True, False)
    seen_by_kafka(monkeypatch, well, topic=plain)
    picture = cluster_picture.read_picture("127.0.0.1:9")
    # The process of the third one still runs, and says that it is to be stopped.
    assert [each.node_id for each in picture.brokers] == [1, 3]
    assert [each.cure for each in judge(picture) if each.level is Level.PROBLEM] == ["stop it"]
    # An older version does not tell who was admitted.
    answers["/v1/brokers"] = (200, [{"node_id": 1, "kafka": "127.0.0.1:9", "admin": NOBODY, "refused": None}])
    assert [each.node_id for each in cluster_picture.read_picture("127.0.0.1:9").brokers] == [1, 2, 3]


def test_throttles_count_that_were_set_while_brokers_run(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Answers = {READY: (200, {"ready": True}), "/v1/brokers": (200, [member_row(1)])}
    follower, leader = RATE_KEYS
    seen_by_kafka(
        *(monkeypatch, serve(answers)),
        ConfigValue(follower, "7", "broker", False, False),
        ConfigValue(leader, "7", "all brokers, at run time", False, False),
        topic=ConfigValue(THROTTLED_KEYS[0], "*", "topic", False, False),
    )
    # Nobody knows whether anything moves.
    assert cluster_picture.read_picture("127.0.0.1:9").moves is None
    answers["/v1/moves"] = (200, {"moves": []})
    picture = cluster_picture.read_picture("127.0.0.1:9")
    assert (picture.moves, picture.brokers[0].throttles) == ((), (leader,))
    assert picture.topics[0].throttles == THROTTLED_KEYS[:1]
    (found,) = [each for each in judge(picture) if each.what == "throttles"]
    assert f"raftka topic alter-config t --delete {THROTTLED_KEYS[0]}" in found.cure
    assert f"raftka cluster config unset {leader} --node N" in found.cure


def test_a_value_that_was_set_on_one_broker_is_known_as_its_own(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Answers = {READY: (200, {"ready": True}), "/v1/brokers": (200, [member_row(1)])}
    seen_by_kafka(
        *(monkeypatch, serve(answers)),
        ConfigValue("log.retention.ms", "7", "broker, at run time", False, False),
        ConfigValue("log.segment.bytes", "7", "all brokers, at run time", False, False),
        ConfigValue("read.cache.bytes", "7", "broker", False, False),
        topic=ConfigValue("retention.ms", "1", "topic", False, False),
    )
    assert cluster_picture.read_picture("127.0.0.1:9").brokers[0].own_configs == {"log.retention.ms"}


def test_partitions_that_cannot_be_moved_have_the_words_of_their_brokers(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = [{"topic": "t", "partition": 0, "replicas": [1], "retired": [1]}]
    answers: Answers = {READY: (200, {"ready": True}), "/v1/brokers": (200, [member_row(1)])}
    seen_by_kafka(monkeypatch, serve(answers), topic=ConfigValue("retention.ms", "1", "topic", False, False))
    for told, retired in (({"moves": []}, ()), ({"moves": [], "cannot_move": stuck}, (1,))):
        answers["/v1/moves"] = (200, told)
        (partition,) = cluster_picture.read_picture("127.0.0.1:9").partitions or ()
        assert (partition.retired, partition.waits_for_force) == (retired, bool(retired))


def test_settings_that_cannot_be_read_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise KafkaClientError("not authorized")

    cluster = ClusterInfo("c", 1, {1: NOBODY}, {"t": [PartitionInfo(0, -1, [1], [1])]})
    monkeypatch.setattr(kafka_client, "read_cluster", lambda _: cluster)
    monkeypatch.setattr(kafka_configs, "read_configs", refused)
    monkeypatch.setattr(kafka_configs, "read_topic_configs", refused)
    picture = cluster_picture.read_picture(NOBODY)
    assert (picture.is_raftka, picture.topics, picture.brokers[0].configs) == (False, (), None)
    (partition,) = picture.partitions or ()
    assert (partition.is_offline, partition.in_sync, partition.min_isr) == (True, (), None)


@pytest.fixture
def stopped() -> Iterator[str]:
    """The Kafka port of a process that is stopped: its kernel takes connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_what_takes_connections_and_answers_nothing_hangs(
    stopped: str, serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    web = serve({})
    assert probe_all([stopped, web, NOBODY, "bogus", stopped], 0.2) == {
        stopped: Reply.NOTHING,
        web: Reply.FOREIGN,
        NOBODY: Reply.UNREACHED,
        "bogus": Reply.UNREACHED,
    }
    assert probe_all([]) == {}
    (found,) = told(capsys, "--brokers", f"{stopped},{NOBODY}")
    assert found["words"] == f"{stopped} takes connections and answers nothing: it hangs or is stopped"
    assert "kill -USR2 PID" in found["cure"]


def test_a_frozen_broker_of_a_dev_cluster_is_named_by_its_node_id(
    stopped: str, data_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    has_dev_cluster(data_home, (stopped, stopped))
    (found,) = told(capsys, "--brokers", stopped)
    assert (found["what"], "raftka dev restart 1" in found["cure"]) == ("broker 1", True)


def test_an_address_that_hangs_up_answers_nobody_and_does_not_hang() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        hanger = threading.Thread(target=lambda: listener.accept()[0].close())
        hanger.start()
        assert probe_all([address]) == {address: Reply.HANGS_UP}
        hanger.join()
