"""The lag that a coordinator reports is the lag that kafka_exporter computes from the Kafka protocol alone.

kafka_exporter (danielqsj/kafka_exporter, Apache-2.0) is what many operators watch groups with. The test takes the
program from the PATH, or builds it with Go.
"""

import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.needed_tools import needs_tools
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.group_members import GROUP_OPTIONS, Member, coordinator_of, fill
from tests.process.kafka_topics import create_topic

pytestmark = [pytest.mark.process, pytest.mark.long]

MODULE = "github.com/danielqsj/kafka_exporter@v1.9.0"
TOPIC, GROUP, PARTITIONS, PORT = "orders", "readers", 3, 19_308
_BUILD = Path(__file__).parents[2] / "build" / "clients"
_BUILD_SECONDS = 600.0
_OURS = re.compile(r'^raftka_group_lag_(records|max_records)\{group="readers"\} (\S+)$', re.MULTILINE)
_THEIRS = re.compile(
    r'^kafka_consumergroup_lag\{consumergroup="readers",partition="\d+",topic="orders"\} (\S+)$', re.MULTILINE
)


def exporter() -> str:
    """Return the program."""
    if (found := shutil.which("kafka_exporter")) is not None:
        return found
    _BUILD.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["go", "install", MODULE],
        env=os.environ | {"GOBIN": str(_BUILD)},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"put kafka_exporter on the PATH; go install {MODULE}: {done.stderr[-1000:]}"
    return str(_BUILD / "kafka_exporter")


@contextmanager
def watched(cluster: BrokerCluster) -> Iterator[str]:
    """Yield the address of an exporter that watches the cluster."""
    address = f"{cluster.network}.250:{PORT}"
    servers = [f"--kafka.server={broker.kafka}" for broker in cluster.brokers.values()]
    with (cluster.folder / "exporter.log").open("wb") as log:
        process = subprocess.Popen([exporter(), *servers, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        yield address
    finally:
        process.kill()
        process.wait()


def scraped(address: str) -> str:
    """Return the metrics at an address; empty while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError):
        return ""


def reported(address: str) -> tuple[int, int] | None:
    """Return the lag of all partitions and of the worst one as a broker reports them."""
    told = {name: int(float(value)) for name, value in _OURS.findall(scraped(address))}
    return (told["records"], told["max_records"]) if told else None


def computed(address: str) -> tuple[int, int] | None:
    """Return the same as kafka_exporter computes it."""
    lags = [int(float(value)) for value in _THEIRS.findall(scraped(address))]
    return (sum(lags), max(lags)) if len(lags) == PARTITIONS else None


@needs_tools("go")
def test_a_coordinator_and_kafka_exporter_tell_the_same_lag(make_cluster: ClusterMaker):
    cluster = make_cluster(3, **GROUP_OPTIONS)
    cluster.start()
    create_topic(cluster, TOPIC, partitions=PARTITIONS)
    fill(cluster, TOPIC, [str(number) for number in range(300)], PARTITIONS)
    with closing(Member(cluster, GROUP, TOPIC)) as member:
        offsets = [TopicPartition(TOPIC, number, 60 + 10 * number) for number in range(PARTITIONS)]
        member.consumer.commit(offsets=offsets, asynchronous=False)
    keeper = cluster[coordinator_of(cluster, GROUP)].admin
    with watched(cluster) as address:
        eventually("kafka_exporter's lag", lambda: computed(address) == (90, 40) or None)
        eventually("the broker's lag", lambda: reported(keeper) == (90, 40) or None)
        fill(cluster, TOPIC, [str(number) for number in range(30)], PARTITIONS)
        eventually("kafka_exporter's next lag", lambda: computed(address) == (120, 50) or None)
        eventually("the broker's next lag", lambda: reported(keeper) == (120, 50) or None)
