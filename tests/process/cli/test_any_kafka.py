"""The client commands against real brokers: Raftka's, and in the long suite Apache Kafka's, with the same words."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.needed_tools import needs_tools
from tests.process.acked_log import quiet_logger
from tests.process.broker_processes import eventually
from tests.process.command_line import RAFTKA, SECONDS, raftka, read_until, started
from tests.process.kcat import kcat, needs_kcat

pytestmark = pytest.mark.process

Run = Callable[..., "subprocess.CompletedProcess[str]"]

_APACHE_KAFKA = pytest.param("apache-kafka", marks=(pytest.mark.long, needs_tools("java", "mvn")))


@pytest.fixture(scope="module", params=["raftka", _APACHE_KAFKA])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Addresses of three brokers."""
    if request.param == "raftka":
        yield request.getfixturevalue("shared_cluster").bootstrap
        return
    from benchmarks.kafka.kafka_cluster import running_kafka

    with running_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka.bootstrap


@pytest.fixture
def run(bootstrap: str) -> Run:
    def run_command(*arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
        return raftka(*arguments, RAFTKA_BROKERS=bootstrap, **options)

    return run_command


def rows(run: Run, *arguments: str) -> list[dict[str, object]]:
    """Return the JSON lines of `raftka consume`."""
    return [json.loads(line) for line in run("consume", *arguments, "-f", "json").stdout.splitlines()]


def partitions_of(run: Run, group: str) -> list[tuple[str, int, int | None, int | None]]:
    found = json.loads(run("group", "describe", group, "-f", "json").stdout)["partitions"]
    return [(each["topic"], each["partition"], each["committed"], each["lag"]) for each in found]


@contextmanager
def member(bootstrap: str, topic: str, group: str, run: Run) -> Iterator[None]:
    """Let a consumer be in a group."""
    with started([*RAFTKA, "consume", topic, "-g", group, "--brokers", bootstrap]) as process:
        describe = ("group", "describe", group, "-f", "json")

        def has_member() -> bool:
            listed = json.loads(run("group", "list", "-f", "json").stdout)
            if not any(each["group"] == group for each in listed):
                return False
            found = json.loads(run(*describe).stdout)
            return found["state"] == "Stable" and bool(found["members"][0]["partitions"])

        eventually(f"a member of {group}", has_member, 60.0)
        yield
        process.terminate()
        _, complaints = process.communicate()
    assert (process.returncode, complaints) == (0, "")


def test_a_record_keeps_everything_on_its_way_through_json(run: Run) -> None:
    for topic in ("json-from", "json-to"):
        run("topic", "create", topic, "-p", "1")
    lines = [
        {"key": "k", "value": "ä", "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}]},
        {"key": None, "value": None, "timestamp": 1_700_000_000_000},
        {"key": {"base64": "/w=="}, "value": "", "headers": {"bytes": {"base64": "AP8="}}},
    ]
    run("produce", "json-from", "-f", "json", stdin="".join(json.dumps(line) + "\n" for line in lines))
    first = run("consume", "json-from", "-e", "-f", "json").stdout
    run("produce", "json-to", "-f", "json", "-z", "zstd", stdin=first)
    found = rows(run, "json-to", "-e")
    assert [{**each, "topic": "json-from"} for each in found] == [json.loads(line) for line in first.splitlines()]
    assert found[1]["timestamp"] == 1_700_000_000_000
    assert found[1]["value"] is None
    assert found[2]["headers"] == [{"key": "bytes", "value": {"base64": "AP8="}}]


def test_formats_write_and_print_keys_headers_nulls_and_sizes(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "formats", "-p", "2")
    sized = "1 2 kab\n-1 -1 \n"
    told = run("produce", "formats", "-p", "1", "-f", r"%K %S %k%s\n", "-H", "a=1", "-o", r"%p/%o\n", stdin=sized)
    assert told.stdout == "1/0\n1/1\n"
    shown = run("consume", "formats", "-p", "1", "-e", "-f", r"%t|%p|%o|%k|%s|%K|%S|%h|%H|%s{hex}%%\x21\n").stdout
    assert shown == "formats|1|0|k|ab|1|2|a=1|1|6162%!\nformats|1|1|||-1|-1|a=1|1|%!\n"
    run("produce", "formats", "-f", r"%p %k=%s\n", stdin="0 x=1\n1 y=2\n")
    assert run("consume", "formats", "-p", "0", "-e", "-f", r"%k %v\n").stdout == "x 1\n"
    told = run("produce", "formats", "-f", r"%p %s\n", stdin="0 fine\n7 bad\n", code=1)
    assert "record 2: partition 7: topic formats has partitions 0 to 1" in told.stderr
    assert told.stdout == "1 record written to formats\n"


def test_files_are_read_one_after_the_other_and_whole_where_the_format_says_so(run: Run, tmp_path: Path) -> None:
    run("topic", "create", "files", "-p", "1")
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a\nb\n")
    two.write_text("c\n\n")
    assert run("produce", "files", str(one), str(two)).stdout == "4 records written to files\n"
    run("produce", "files", "-f", "%s", str(one))
    run("produce", "files", "-Z", stdin="\n")
    assert [each["value"] for each in rows(run, "files", "-e")] == ["a", "b", "c", "", "a\nb\n", None]
    assert "missing: no such file" in run("produce", "files", "missing", code=1).stderr


def test_reading_begins_where_it_is_told_to(run: Run) -> None:
    # Records of 1970 would be taken away otherwise.
    run("topic", "create", "begin", "-p", "1", "-c", "retention.ms=-1")
    records = "".join(f"{1_000 * number} {number}\n" for number in range(1, 6))
    run("produce", "begin", "-f", r"%T %s\n", stdin=records)
    for offset, expected in (
        ("start", "12345"),
        ("end", ""),
        ("3", "45"),
        ("-2", "45"),
        ("@3", "345"),
        # Few digits are seconds, many are milliseconds.
        ("@00000000002500", "345"),
        ("@2500", ""),
        ("@1970-01-01T00:00:04Z", "45"),
        ("@2030-01-01", ""),
        ("@-1h", ""),
    ):
        found = run("consume", "begin", "-e", "-o", offset, "-f", "%s").stdout
        assert found == expected, offset


def test_a_group_reads_on_where_it_has_printed(run: Run) -> None:
    run("topic", "create", "tail", "-p", "1")
    run("produce", "tail", stdin="1\n2\n3\n4\n")
    assert run("consume", "tail", "-g", "readers", "-n", "3").stdout == "1\n2\n3\n"
    assert partitions_of(run, "readers") == [("tail", 0, 3, 1)]
    assert run("consume", "tail", "-g", "readers", "-e").stdout == "4\n"
    assert run("consume", "tail", "-g", "newcomers", "-e", "-o", "end").stdout == ""


def test_a_group_is_sought_by_every_kind_of_position(run: Run) -> None:
    run("topic", "create", "sought", "-p", "2", "-c", "retention.ms=-1")
    run("produce", "sought", "-f", r"%p %T %s\n", stdin="".join(f"0 {number}000 x\n" for number in range(1, 6)))
    assert "has no committed offsets" in run("group", "seek", "movers", "--to", "start", code=1).stderr
    seek = ("group", "seek", "movers")
    told = json.loads(run(*seek, "--to", "end", "-t", "sought", "--dry-run", "-f", "json").stdout)
    assert told["changed"] is False
    assert [(each["partition"], each["before"], each["after"]) for each in told["partitions"]] == [
        (0, None, 5),
        (1, None, 0),
    ]
    assert "no group 'movers'" in run("group", "describe", "movers", code=1).stderr
    for arguments, expected in (
        (["--to", "end", "-t", "sought"], [5, 0]),
        (["--to", "start"], [0, 0]),
        (["--to", "-2", "-t", "sought:0"], [3, 0]),
        (["--to", "@00000000002000"], [1, 0]),
        (["--to", "4", "-t", "sought:0"], [4, 0]),
    ):
        run(*seek, *arguments)
        assert [each[2] for each in partitions_of(run, "movers")] == expected, arguments
    run("group", "seek", "followers", "--to-group", "movers")
    assert partitions_of(run, "followers") == [("sought", 0, 4, 1), ("sought", 1, 0, 0)]
    told = run(*seek, "--to", "3", "-t", "sought")
    assert told.stderr == "raftka: partition 1 of sought is empty, its next offset is 0; 0 is used instead of 3\n"
    assert [each[2] for each in partitions_of(run, "movers")] == [3, 0]
    told = run(*seek, "--to", "99", "-t", "sought:0", "--dry-run")
    assert "partition 0 of sought has offsets 0 to 4; 5 is used instead of 99" in told.stderr
    run(*seek, "--to", "4", "-t", "sought:0")
    assert "has partitions 0 to 1, not 7" in run(*seek, "--to", "end", "-t", "sought:7", code=1).stderr
    assert partitions_of(run, "movers") == [("sought", 0, 4, 1), ("sought", 1, 0, 0)]
    assert run("group", "delete", "movers", "followers").stdout == "deleted movers\ndeleted followers\n"
    told = run("group", "delete", "movers", code=1).stderr
    assert told.startswith("raftka: group movers is not deleted: it does not exist")


def test_a_group_that_is_in_use_is_described_and_neither_sought_nor_deleted(run: Run, bootstrap: str) -> None:
    run("topic", "create", "used", "-p", "2")
    run("produce", "used", stdin="1\n")
    run("consume", "used", "-g", "workers", "-e")
    with member(bootstrap, "used", "workers", run):
        found = json.loads(run("group", "describe", "workers", "-f", "json").stdout)
        assert [each["client"] for each in found["partitions"]] == ["rdkafka", "rdkafka"]
        assert found["lag"] == 0
        refusal = run("group", "seek", "workers", "--to", "start", code=1).stderr
        assert refusal.startswith("raftka: group workers is in use (Stable, 1 member): stop its consumers first")
        assert "is in use" in run("group", "delete", "workers", code=1).stderr
    # It has left the group, and nobody waits for its session to time out.
    run("group", "seek", "workers", "--to", "start")
    run("group", "delete", "workers")


def test_a_topic_is_configured_grown_and_trimmed(run: Run) -> None:
    run("topic", "create", "changing", "-p", "1")
    run("produce", "changing", stdin="1\n2\n3\n4\n")

    def retention() -> tuple[str, bool]:
        found = json.loads(run("topic", "describe", "changing", "--configs", "-f", "json").stdout)["configs"]
        (entry,) = [each for each in found if each["key"] == "retention.ms"]
        return entry["value"], entry["source"] == "topic"

    default = retention()[0]
    run("topic", "alter-config", "changing", "--set", "retention.ms=123456789", "--dry-run")
    assert retention() == (default, False)
    run("topic", "alter-config", "changing", "--set", "retention.ms=123456789")
    assert eventually("it is set", lambda: retention() == ("123456789", True))
    run("topic", "alter-config", "changing", "--delete", "retention.ms")
    assert eventually("it is the default", lambda: retention() == (default, False))
    assert "nonsense" in run("topic", "alter-config", "changing", "--set", "nonsense=1", code=1).stderr

    told = json.loads(run("topic", "trim-prefix", "changing", "-o", "-1", "--dry-run", "-f", "json").stdout)
    assert told["partitions"] == [{"partition": 0, "before": 0, "after": 3, "deleted": 3}]
    run("topic", "trim-prefix", "changing", "-o", "2")
    assert run("consume", "changing", "-e").stdout == "3\n4\n"
    told = json.loads(run("topic", "trim-prefix", "changing", "-o", "1", "-f", "json").stdout)
    assert told["partitions"] == [{"partition": 0, "before": 2, "after": 2, "deleted": 0}]
    assert "5 is out of range" in run("topic", "trim-prefix", "changing", "-o", "5", code=1).stderr

    run("topic", "add-partitions", "changing", "-n", "2", "--dry-run")
    told = run("topic", "add-partitions", "changing", "-n", "2").stdout
    assert told == "changing: 3 partitions, before it had 1\n"

    run("produce", "changing", "-p", "1", stdin="5\n")
    done = run("topic", "trim-prefix", "changing", "-p", "0", "-p", "1", "-o", "3")
    assert done.stderr == "raftka: note: partition 1 of changing ends at 1; 1 is used instead of 3\n"
    assert run("consume", "changing", "-e").stdout == "4\n"


def test_a_topic_is_deleted_once(run: Run) -> None:
    run("topic", "create", "short-lived", "-p", "1")
    run("produce", "short-lived", stdin="1\n")
    assert run("topic", "delete", "short-lived").stdout == "deleted short-lived\n"
    eventually("it is gone", lambda: "short-lived" not in run("topic", "list").stdout.split(), 60.0)
    told = run("topic", "delete", "short-lived", code=1).stderr
    assert "no topic 'short-lived'" in told
    assert "no topic 'short-lived'" in run("consume", "short-lived", "-e", code=1).stderr


def test_info_names_the_cluster_its_brokers_and_its_controller(run: Run, bootstrap: str) -> None:
    run("topic", "create", "informed", "-p", "2")
    found = json.loads(run("cluster", "info", "-f", "json").stdout)
    assert sorted(each["kafka"] for each in found["brokers"]) == sorted(bootstrap.split(","))
    nodes = {each["node_id"] for each in found["brokers"]}
    assert found["controller"] in nodes
    assert found["topics"] >= 1
    assert found["partitions"] >= 2
    lines = run("cluster", "info").stdout.splitlines()
    assert lines[0] == f"cluster:    {found['cluster_id']}"
    assert {int(line.split()[0]) for line in lines[-3:]} == nodes


@needs_kcat
def test_a_format_prints_what_kcat_prints(run: Run, bootstrap: str) -> None:
    run("topic", "create", "both-print", "-p", "1", "-c", "retention.ms=-1")
    run(
        "produce",
        "both-print",
        "-f",
        r"%K %V %T %k%v\n",
        "-H",
        "a=1",
        "-H",
        "b=",
        stdin="1 2 7 kab\n-1 0 8 \n2 -1 9 kk\n",
    )
    for records, kcats in (("3", r"%t|%p|%o|%k|%s|%K|%S|%T|%h|%%|\x41\t\n"), ("2", "%R%s")):
        printed = kcat(bootstrap, "-C", "-t", "both-print", "-c", records, "-q", "-f", kcats)
        assert run("consume", "both-print", "-n", records, "-f", kcats).stdout == printed
        assert printed


def test_a_stream_that_is_framed_in_binary_is_read_back(run: Run, tmp_path: Path) -> None:
    for topic in ("framed", "framed-again"):
        run("topic", "create", topic, "-p", "1")
    run("produce", "framed", "-K", ":", stdin="a:1\nb:22\n:\n")
    framed = run("consume", "framed", "-e", "-f", "%K{big32}%V{little16}%k%v").stdout
    assert framed == "\0\0\0\x01\x01\0a1" + "\0\0\0\x01\x02\0b22" + "\0\0\0\0\0\0"
    told = run("produce", "framed-again", "-f", "%K{big32}%V{little16}%k%v", "-o", r"%i %o\n", stdin=framed)
    assert told.stdout == "1 0\n2 1\n3 2\n"
    assert run("consume", "framed-again", "-e", "-f", "%k=%v;").stdout == "a=1;b=22;=;"


def test_the_brokers_configuration_is_read(run: Run) -> None:
    found = json.loads(run("cluster", "config", "list", "-f", "json").stdout)
    assert {"min.insync.replicas", "message.max.bytes"} <= {each["key"] for each in found}
    nodes = {node for each in found for node in each["nodes"]}
    assert len(nodes) == 3
    assert run("cluster", "config", "get", "message.max.bytes").stdout == "1048588\n"
    assert "no broker has a key nonsense" in run("cluster", "config", "get", "nonsense", code=1).stderr
    assert "broker 99 is not in the cluster" in run("cluster", "config", "list", "--node", "99", code=1).stderr


def test_options_of_brokers_are_set_and_unset_while_they_run(run: Run) -> None:
    get = ("cluster", "config", "get", "message.max.bytes")
    default = run(*get).stdout
    run("cluster", "config", "set", "message.max.bytes=1048580", "--dry-run")
    assert run(*get).stdout == default
    assert run("cluster", "config", "set", "message.max.bytes=1048580").stdout == "changed on all brokers\n"
    assert eventually("it is set", lambda: run(*get).stdout == "1048580\n")
    run("cluster", "config", "unset", "message.max.bytes")
    assert eventually("it is the default", lambda: run(*get).stdout == default)


def test_a_bench_counts_what_it_writes_and_reads(run: Run) -> None:
    arguments = ("bench", "-p", "2", "--rate", "200", "--size", "100", "-s", "1", "--warmup", "0.5", "-f", "json")
    found = json.loads(run(*arguments).stdout)
    assert found["produced"]["records"] == found["consumed"]["records"] == 200
    for side in (found["produced"], found["consumed"]):
        assert side["failures"] == {}
        assert sum(row["records"] for row in side["histogram_ms"]) == 200
        assert 0 < side["latency_ms"]["p50"] <= side["latency_ms"]["max"]
    # The broker that is asked for the list may hear of it a moment later than the one that was told.
    assert eventually("it takes its topic away", lambda: found["topic"] not in run("topic", "list").stdout)


def test_a_bench_that_is_terminated_deletes_its_topic(run: Run, bootstrap: str) -> None:
    def topics() -> list[str]:
        return [name for name in run("topic", "list").stdout.split() if name.startswith("raftka-bench-")]

    with started([*RAFTKA, "bench", "-p", "1", "-s", "600", "--rate", "10"], RAFTKA_BROKERS=bootstrap) as bench:
        eventually("the bench has its topic", lambda: bool(topics()), 60.0)
        bench.terminate()
        bench.communicate(timeout=SECONDS)
    assert bench.returncode == 130
    eventually("its topic is gone", lambda: not topics(), 60.0)


def test_a_producer_that_is_terminated_tells_what_it_has_written(run: Run, bootstrap: str, tmp_path: Path) -> None:
    run("topic", "create", "terminated", "-p", "1")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Open for both, so that opening waits for nobody and the pipe never ends.
    descriptor = os.open(pipe, os.O_RDWR)
    try:
        with started([*RAFTKA, "produce", "terminated", str(pipe)], RAFTKA_BROKERS=bootstrap) as producer:
            os.write(descriptor, b"one\n")
            eventually("it is written", lambda: run("consume", "terminated", "-e").stdout == "one\n", 60.0)
            producer.terminate()
            told, _ = producer.communicate(timeout=SECONDS)
    finally:
        os.close(descriptor)
    assert (producer.returncode, told) == (0, "1 record written to terminated\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM] * 3)
def test_a_producer_that_is_interrupted_in_full_flight_writes_what_it_has_read(
    run: Run, bootstrap: str, tmp_path: Path, number: signal.Signals
) -> None:
    topic = f"flight-{tmp_path.name}".replace("[", "-").replace("]", "-")
    run("topic", "create", topic, "-p", "1")
    endless = tmp_path / "endless"
    os.mkfifo(endless)
    with subprocess.Popen(["sh", "-c", 'exec yes > "$0"', str(endless)], stderr=subprocess.DEVNULL) as lines:
        try:
            command = [*RAFTKA, "produce", topic, "-o", "%o\n", str(endless)]
            with started(command, RAFTKA_BROKERS=bootstrap) as producer:
                read_until(producer, "100")
                producer.send_signal(number)
                told, complaints = producer.communicate(timeout=SECONDS)
        finally:
            lines.kill()
    assert (producer.returncode, complaints) == (0, "\n")
    last = int(told.split()[-1])
    (record,) = rows(run, topic, "-o", "-1", "-e")
    assert record["offset"] == last, "what is written is what was told to be"


def test_records_before_one_that_cannot_be_sent_are_written(run: Run) -> None:
    run("topic", "create", "names", "-p", "1")
    lines = '{"value": "good"}\n' * 500 + '{"value": "bad", "headers": {"\\ud800": "y"}}\n'
    done = run("produce", "names", "-f", "json", stdin=lines, code=1)
    assert done.stderr == "raftka: line 501: header name '\\ud800' is not UTF-8\n"
    assert done.stdout == "500 records written to names\n"
    assert run("consume", "names", "-e").stdout == "good\n" * 500


def test_a_bench_of_a_topic_that_does_not_exist_says_so(run: Run) -> None:
    assert "no topic 'nowhere'" in run("bench", "-t", "nowhere", code=1).stderr


def test_the_doctor_finds_nothing_that_does_not_work(run: Run) -> None:
    found = json.loads(run("doctor", "cluster", "-f", "json").stdout)
    levels = {each["what"]: each["level"] for each in found["findings"]}
    assert (levels["brokers"], levels["leaders"], levels["replicas"]) == ("ok", "ok", "ok")
    assert all(each["cure"] for each in found["findings"] if each["level"] != "ok")


def test_an_address_may_have_its_protocol_before_it(run: Run, bootstrap: str) -> None:
    given = ",".join(f"PLAINTEXT://{address}" for address in bootstrap.split(","))
    found = json.loads(run("doctor", "cluster", "--brokers", given, "-f", "json").stdout)["findings"]
    assert [each["level"] for each in found if each["what"] == "brokers"] == ["ok"]
    assert run("cluster", "health", "--brokers", given).stdout.startswith("healthy\n")


def test_transactions_are_written_listed_described_and_aborted(run: Run, bootstrap: str) -> None:
    name = "txn-words"
    run("topic", "create", name, "-p", "1")
    run("produce", name, "--transactional-id", name, stdin="one\ntwo\n")
    found = json.loads(run("txn", "describe", name, "-f", "json").stdout)
    assert (found["state"], found["partitions"]) == ("CompleteCommit", [])
    lasting = {"transactional.id": name, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": bootstrap, "logger": quiet_logger(), **lasting})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(name, "open")
    assert producer.flush(SECONDS) == 0
    listed = json.loads(run("txn", "list", "--state", "Ongoing", "-f", "json").stdout)
    assert [each["transactional_id"] for each in listed] == [name]
    assert run("txn", "describe", name).stdout.splitlines()[-1].split() == [name, "0"]
    hanging = ("txn", "find-hanging", "-t", name, "--max-transaction-timeout", "0")
    assert json.loads(run(*hanging, "-f", "json").stdout) == [], "its coordinator has it"
    assert run("consume", name, "-e", "--read-committed").stdout == "one\ntwo\n"
    assert run("consume", name, "-e").stdout == "one\ntwo\nopen\n"
    producer.abort_transaction(SECONDS)
    run("produce", name, stdin="three\n")
    assert run("consume", name, "-e", "--read-committed").stdout == "one\ntwo\nthree\n"


def test_a_shell_completes_topics_and_groups(run: Run) -> None:
    run("topic", "create", "complete-me", "-p", "1")
    variables = {"_RAFTKA_COMPLETE": "bash_complete", "COMP_CWORD": "3"}
    words = run(COMP_WORDS="raftka topic describe complete-", **variables).stdout.split()
    assert words == ["plain,complete-me"]
    run("group", "seek", "complete-group", "--to", "end", "-t", "complete-me")
    words = run(COMP_WORDS="raftka group describe complete-", **variables).stdout.split()
    assert words == ["plain,complete-group"]


def test_a_shell_completes_partitions_and_keys_of_configurations(run: Run) -> None:
    run("topic", "create", "complete-more", "-p", "2")

    def completed(line: str) -> list[str]:
        position = str(len(line.split(" ")) - 1)
        shown = run(COMP_WORDS=line, COMP_CWORD=position, _RAFTKA_COMPLETE="bash_complete").stdout
        return [each.removeprefix("plain,") for each in shown.split()]

    assert completed("raftka consume complete-more -p ") == ["0", "1"]
    assert completed("raftka partition transfer-leadership complete-more 1") == ["1"]
    assert completed("raftka topic alter-config complete-more -s retention.m") == ["retention.ms="]
    assert completed("raftka topic alter-config complete-more -d retention.m") == ["retention.ms"]
    assert completed("raftka cluster config get message.max.b") == ["message.max.bytes"]
