"""`python -m benchmarks.produce_cpu OTHER`: the CPU time of one Produce request, beside another checkout.

OTHER is the root of a checkout whose `make .venv/.installed-tests` has been run. One broker runs in the measured
process, with its Kafka listener, its log and its fsyncs. A client of a few lines sends 1 KiB at acks=all; requests are
encoded before the measurement. The result is the CPU time of that process divided by the requests. Both programs run at
the same time and are measured in turns, a tenth of a second each: A B B A. The other one rests meanwhile.
"""

import argparse
import asyncio
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
from cluster.admin_messages import CreateTopicRequest
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
_WARM_UP = 5_000
# In a window.
_REQUESTS = 1_000
_DEADLINE_SECONDS = 60.0
_VERSION = 9
_LENGTH = struct.Struct(">i")


def main() -> int:
    """Compare, or measure (`--measure`, which is what each checkout's Python is asked for)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.produce_cpu")
    parser.add_argument("other", type=Path, help="the root of the other checkout")
    parser.add_argument("--rounds", type=int, default=9, help="how often both programs are started")
    parser.add_argument("--windows", type=int, default=40, help="of each program, in each round")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that it works; not kept")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    rounds, windows = (1, 4) if arguments.quick else (arguments.rounds, arguments.windows)
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    try:
        if arguments.measure:
            _measure(arguments.other)
            return 0
        return _compare(arguments.other.resolve(), rounds, windows, is_quick=arguments.quick)
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1


def _compare(other: Path, rounds: int, windows: int, *, is_quick: bool) -> int:
    ours, theirs = [], []
    for number in range(rounds):
        if not is_quick:
            wait_for_quiet()
        with _Measured(ROOT) as own, _Measured(other) as its:
            pairs = [_pair(own, its, is_own_first=bool(window % 2)) for window in range(windows)]
        # The median of a round: one program has its addresses and its hash seed for all of its windows.
        ours.append(statistics.median(pair[0] for pair in pairs))
        theirs.append(statistics.median(pair[1] for pair in pairs))
        ratio = statistics.median(own_time / its_time for own_time, its_time in pairs)
        print(
            f"round {number + 1}: {ours[-1]:.1f} and {theirs[-1]:.1f} us of CPU time a request, {ratio:.3f}", flush=True
        )
    found_row = row("CPU time of a Produce request, 1 KiB, acks=all", "us", ours, theirs, LIMIT, peer="other")
    print(f"median ratio {found_row['ratio']:.3f}, limit {LIMIT}")
    if not is_quick:
        document = {
            "benchmark": "produce_cpu",
            "rounds": rounds,
            "windows": windows,
            "requests_of_a_window": _REQUESTS,
            "source": source_version(),
            "machine": machine_facts(_SCRATCH),
            "rows": [found_row],
            "ours": [round(each, 2) for each in ours],
            "theirs": [round(each, 2) for each in theirs],
        }
        print(write_result(_RESULTS, "produce_cpu", document))
    return 0


def _pair(own: "_Measured", its: "_Measured", *, is_own_first: bool) -> tuple[float, float]:
    """Measure both within a fraction of a second: what slows the machine down for longer slows down both."""
    # Whoever comes first has the colder caches: they take turns at that, too.
    if is_own_first:
        own_time = own.window()
        return own_time, its.window()
    its_time = its.window()
    return own.window(), its_time


class _Measured:
    """The Python and the broker of one checkout; this file is run there as it is. It rests between its windows."""

    def __init__(self, root: Path) -> None:
        words = [str(root / "build" / "benchmarks"), "--measure"]
        program = (
            f"import sys; sys.path.insert(0, ''); sys.argv[1:] = {words!r}; __file__ = {__file__!r};"
            " exec(compile(open(__file__).read(), 'produce_cpu', 'exec'))"
        )
        command = [str(root / ".venv" / "bin" / "python"), "-c", program]
        self._root = root
        self._process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> "_Measured":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        # At the end of its input the program stops its broker and ends.
        self._process.stdin.close()
        try:
            self._process.wait(_DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def window(self) -> float:
        """Return the microseconds of CPU time of each request of one window."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            return float(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            raise BenchmarkError(f"the measurement in {self._root} failed") from error


def _measure(scratch: Path) -> None:
    """Print microseconds of CPU time a request for each line that comes in."""
    scratch.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="produce-cpu-", dir=scratch)
    try:
        asyncio.run(_measure_in(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _measure_in(folder: str) -> None:
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
        async with asyncio.timeout(_DEADLINE_SECONDS):
            await node.is_registered.wait()
            changes = {"assignment": [], "configs": {}, "validate_only": False, "timeout": 10.0}
            await node.admin.create_topic(CreateTopicRequest(TOPIC, 1, 1, **changes))
            await _led(node)
        reader, writer = await asyncio.open_connection("127.0.0.1", kafka_port)
        frame = _frame()
        await _produce(reader, writer, frame, _WARM_UP)
        while await asyncio.to_thread(sys.stdin.readline):
            began = time.process_time()
            await _produce(reader, writer, frame, _REQUESTS)
            print(1e6 * (time.process_time() - began) / _REQUESTS, flush=True)
        writer.transport.abort()
    finally:
        await broker.stop()


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
