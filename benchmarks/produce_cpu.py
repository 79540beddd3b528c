"""`python -m benchmarks.produce_cpu OTHER`: the CPU time of one Produce request, beside another checkout.

OTHER is the root of a checkout whose `make .venv/.installed-tests` has been run. One broker runs in the measured
process, with its Kafka listener, its log and its fsyncs. A client of a few lines sends 1 KiB at acks=all; requests are
encoded before the measurement. The result is the CPU time of that process divided by the requests, in turns: A B A B.
"""

import argparse
import asyncio
import json
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.cluster import BenchmarkError
from benchmarks.compare.verdict import Target, row
from benchmarks.machine import machine_facts, wait_for_quiet
from benchmarks.report import ROOT, source_version, write_result
from cluster.admin_requests import CreateTopicRequest
from cluster.node import Node
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import decode_response, encode_request
from kafka_api.protocol.messages import ProduceRequest, ProduceResponse
from model.key_value_batch import KeyValue, encode_key_values
from raftka.broker.application import Broker
from raftka.config import load_config
from runtime.environment import system_environment

LIMIT = Target("<=", 1.03)
TOPIC = "bench"
_SCRATCH = ROOT / "build" / "benchmarks"
_RESULTS = ROOT / "benchmarks" / "results" / "versions"
_VALUE_BYTES = 1024
_IN_FLIGHT = 16
_WARM_UP = 2_000
_VERSION = 9
_LENGTH = struct.Struct(">i")


def main() -> int:
    """Compare, or measure once (`--measure`, which is what each checkout's Python is asked for)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.produce_cpu")
    parser.add_argument("other", type=Path, help="the root of the other checkout")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="short runs, to see that it works; not kept")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    pairs, requests = (1, 2_000) if arguments.quick else (arguments.pairs, arguments.requests)
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    try:
        if arguments.measure:
            print(json.dumps(_measure(arguments.other, requests)))
            return 0
        return _compare(arguments.other.resolve(), pairs, requests, is_quick=arguments.quick)
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1


def _compare(other: Path, pairs: int, requests: int, *, is_quick: bool) -> int:
    runs: dict[str, list[float]] = {"theirs": [], "ours": []}
    roots = {"theirs": other, "ours": ROOT}
    for number in range(pairs):
        # Whoever comes first has the colder caches: they take turns at that, too.
        for label in ("theirs", "ours") if number % 2 == 0 else ("ours", "theirs"):
            if not is_quick:
                wait_for_quiet()
            runs[label].append(_run_in(roots[label], requests))
            print(f"{label}: {runs[label][-1]:.1f} us of CPU time a request", flush=True)
    ours, theirs = runs["ours"], runs["theirs"]
    ratios = sorted(own / its for own, its in zip(ours, theirs, strict=True))
    found_row = row("CPU time of a Produce request, 1 KiB, acks=all", "us", ours, theirs, LIMIT, peer="other")
    print(f"median ratio {statistics.median(ratios):.3f}, from {ratios[0]:.3f} to {ratios[-1]:.3f}; limit {LIMIT}")
    if not is_quick:
        document = {
            "benchmark": "produce_cpu",
            "pairs": pairs,
            "requests": requests,
            "source": source_version(),
            "machine": machine_facts(_SCRATCH),
            "rows": [found_row],
            "ratios": [round(ratio, 4) for ratio in ratios],
        }
        print(write_result(_RESULTS, "produce_cpu", document))
    return 0


def _run_in(root: Path, requests: int) -> float:
    """Measure once by the Python and the broker of a checkout; this file is run there as it is."""
    words = [str(root / "build" / "benchmarks"), "--measure", "--requests", str(requests)]
    program = (
        f"import sys; sys.path.insert(0, ''); sys.argv[1:] = {words!r}; __file__ = {__file__!r};"
        " exec(compile(open(__file__).read(), 'produce_cpu', 'exec'))"
    )
    command = [str(root / ".venv" / "bin" / "python"), "-c", program]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise BenchmarkError(f"the measurement in {root} failed")
    return float(json.loads(done.stdout.splitlines()[-1]))


def _measure(scratch: Path, requests: int) -> float:
    """Return microseconds of CPU time a request."""
    scratch.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="produce-cpu-", dir=scratch)
    try:
        return asyncio.run(_measure_in(folder, requests))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measure_in(folder: str, requests: int) -> float:
    kafka_port = _free_port()
    flags = {
        "node.id": 1,
        "data.dir": f"{folder}/data",
        "kafka.port": kafka_port,
        "admin.port": _free_port(),
        "rpc.port": _free_port(),
    }
    broker = Broker(load_config(flags), system_environment(), _end, _end)
    try:
        await broker.start()
        node = broker._node
        assert node is not None
        async with asyncio.timeout(60):
            await node.is_registered.wait()
            changes = {"assignment": [], "configs": {}, "validate_only": False, "timeout": 10.0}
            await node.admin.create_topic(CreateTopicRequest(TOPIC, 1, 1, **changes))
            await _led(node)
        reader, writer = await asyncio.open_connection("127.0.0.1", kafka_port)
        frame = _frame()
        await _produce(reader, writer, frame, _WARM_UP)
        began = time.process_time()
        await _produce(reader, writer, frame, requests)
        seconds = time.process_time() - began
        writer.transport.abort()
    finally:
        await broker.stop()
    return 1e6 * seconds / requests


async def _led(node: Node) -> None:
    """Wait until the broker leads the topic's partition."""
    led = asyncio.Event()
    node.groups.add_leadership_listener(lambda consensus: led.set() if consensus.is_in_office else None)
    while not any(partition.is_in_office for partition in node.partitions):
        led.clear()
        await led.wait()


def _frame() -> bytes:
    """Return a request with one batch of one record."""
    batch = encode_key_values([KeyValue(b"key", bytes(_VALUE_BYTES))], int(time.time() * 1000))
    data = ProduceRequest.PartitionProduceData(index=0, records=bytes(batch))
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    return b"".join(encode_request(ApiKey.PRODUCE, _VERSION, 1, "bench", request))


async def _produce(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes, count: int) -> None:
    """Send so many requests, a few in flight, and read the answers to all."""
    sent = answered = 0
    while answered < count:
        while sent < count and sent - answered < _IN_FLIGHT:
            writer.write(frame)
            sent += 1
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        answer = await reader.readexactly(length)
        answered += 1
        if answered == count:
            # One of them is read, when nothing is measured any more but this.
            _, response = decode_response(ApiKey.PRODUCE, _VERSION, answer)
            assert isinstance(response, ProduceResponse)
            code = response.responses[0].partition_responses[0].error_code
            if code != 0:
                raise BenchmarkError(f"the broker answers with error code {code}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _end(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
