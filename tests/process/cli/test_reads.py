"""What `raftka consume` does with records that are not as they should be, and where and how it ends."""

import json
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import ProduceRequest
from tests.process.broker_processes import BrokerCluster
from tests.process.command_line import RAFTKA, SECONDS, Run, environment, started
from tests.process.kafka_topics import create_topic
from tests.process.wire_socket import WireSocket
from tests.unit.model.record_batches import build_batch, varint

pytestmark = pytest.mark.process


def write(cluster: BrokerCluster, topic: str, *batches: bytes) -> None:
    """Create a topic with one partition that has these batches, as no librdkafka need have made them."""
    # Their records are of 1970.
    create_topic(cluster, topic, **{"retention.ms": -1})
    with WireSocket(cluster[cluster.leader_of(topic, 0)]) as client:
        for batch in batches:
            partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
            data = ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])
            request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
            answer = client.call(ApiKey.PRODUCE, 7, request)
            assert answer.responses[0].partition_responses[0].error_code == 0


def with_headers(value: bytes, *headers: tuple[bytes, bytes]) -> bytes:
    """Return a batch of one record; the names of its headers may be any bytes."""
    written = b"".join(varint(len(name)) + name + varint(len(data)) + data for name, data in headers)
    body = b"\0" * 3 + varint(-1) + varint(len(value)) + value + varint(len(headers)) + written
    return build_batch(payload=varint(len(body)) + body, count=1)


def test_a_record_with_headers_that_cannot_be_read_is_printed_without_them(
    shared_cluster: BrokerCluster, run: Run
) -> None:
    one, two = (b"\xff", b"1"), (b"\xfe\xff", b"2")
    # The interpreter specializes what runs often; confluent-kafka's error came out of another line then.
    batches = [with_headers(b"x", (b"name", b"3")), with_headers(b"x", one), with_headers(b"x", one, two)] * 10
    write(shared_cluster, "header-names", *batches)
    readable = [number % 3 == 0 for number in range(30)]
    for arguments in ([], ["-g", "header-readers"]):
        read = run("consume", "header-names", "-e", "-f", "json", *arguments)
        found = [json.loads(line)["headers"] for line in read.stdout.splitlines()]
        assert found == [[{"key": "name", "value": "3"}] if each else None for each in readable]
        warned = [line.partition(" has a header whose name")[0] for line in read.stderr.splitlines()]
        assert warned == [
            f"raftka: offset {number} of partition header-names-0" for number in range(30) if not readable[number]
        ]
    read = run("consume", "header-names", "-e", "-f", r"%o [%h] %H\n")
    assert read.stdout.splitlines() == [
        f"{number} [name=3] 1" if each else f"{number} [] -1" for number, each in enumerate(readable)
    ]
    assert run("consume", "header-names", "-e").stderr == ""


def test_a_batch_that_cannot_be_decoded_is_named_and_ends_what_wants_an_end(
    shared_cluster: BrokerCluster, run: Run
) -> None:
    write(shared_cluster, "undecodable", build_batch(b"one"), build_batch(payload=b"\xff" * 40, count=1))
    commands = (["-e"], ["-e", "-g", "undecodable"], ["-n", "2", "-g", "undecodable-n"])
    # Side by side: each of them waits.
    with ThreadPoolExecutor(len(commands)) as pool:
        reads = [pool.submit(run, "consume", "undecodable", *each, code=1) for each in commands]
    for read in reads:
        assert read.result().stdout == "one\n"
        words = "partition undecodable-0 cannot be read: the records at offset 1 cannot be decoded (Read underflow)"
        assert words in read.result().stderr
    # What was printed is committed, and the next one names the same.
    assert run("group", "describe", "undecodable").stdout.splitlines()[-1].split()[2:5] == ["1", "2", "1"]


@pytest.mark.parametrize("arguments", ["-o -1", "-g circle"])
def test_reading_to_the_end_stops_where_the_end_was_though_records_are_added(
    shared_cluster: BrokerCluster, run: Run, arguments: str
) -> None:
    topic = f"circle-{len(arguments)}"
    create_topic(shared_cluster, topic)
    run("produce", topic, stdin="again\n")
    variables = environment() | {"RAFTKA_BROKERS": shared_cluster.bootstrap}
    consume = [*RAFTKA, "consume", topic, "-e", "-f", "json", *arguments.split()]
    produce = [*RAFTKA, "produce", topic, "-f", "json"]
    for _ in range(2):
        # Each record that is printed makes another one.
        with subprocess.Popen(consume, stdout=subprocess.PIPE, env=variables) as reader:
            written = subprocess.run(produce, stdin=reader.stdout, capture_output=True, timeout=SECONDS, env=variables)
        assert (reader.returncode, written.stdout.decode()) == (0, f"1 record written to {topic}\n")
    assert run("consume", topic, "-e").stdout == "again\n" * 3


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_end_that_was_asked_for_is_a_failure(
    shared_cluster: BrokerCluster, run: Run, number: int, code: int
) -> None:
    topic = f"cut-short-{code}"
    create_topic(shared_cluster, topic)
    run("produce", topic, stdin="one\n")
    for arguments, expected in ((["-n", "2"], code), (["-n", "2", "-g", topic], code), ([], 0)):
        command = [*RAFTKA, "consume", topic, *arguments]
        with started(command, RAFTKA_BROKERS=shared_cluster.bootstrap) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "one\n"
            reader.send_signal(number)
            _, complaints = reader.communicate(timeout=SECONDS)
        assert reader.returncode == expected
        assert ("stopped the command before the limit of -n or -e" in complaints) == bool(arguments)
