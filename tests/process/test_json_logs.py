"""A broker with `log.format = json`: every line of its log is one object with the documented fields."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.process.broker_processes import BrokerProcess, ClusterMaker
from tests.process.kafka_topics import create_topic

pytestmark = pytest.mark.process

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "logs.md"


def _documented_fields() -> list[str]:
    """Return the first column of the table of fields."""
    section = PAGE.read_text().partition("## JSON")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    return [name.strip("` ") for row in rows for name in row.split("|")[1].split(",")]


def _lines(broker: BrokerProcess) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in broker.log_text().splitlines()]
    for each in found:
        assert list(each) == _documented_fields()
        assert each["node"] == broker.node_id
    return found


def test_every_line_from_start_to_end_is_json(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(3, **{"log.format": "json"})
    cluster.start()
    create_topic(cluster, "orders", 1)
    leader = cluster[cluster.leader_of("orders", 0)]
    [elected] = [each for each in _lines(leader) if each["message"].startswith("elected by") and each["role"] == "L"][
        -1:
    ]
    assert (elected["logger"], elected["level"]) == ("raft", "INFO")
    assert elected["term"] >= 1
    for broker in cluster.brokers.values():
        assert broker.terminate() == 0
        assert _lines(broker)[-1]["message"] == "stopped"


def test_a_refusal_to_start_is_a_line_of_json(make_cluster: ClusterMaker) -> None:
    cluster = make_cluster(1, **{"log.format": "json"})
    cluster.start()
    cluster[1].terminate()
    seen = len(_lines(cluster[1]))
    cluster[1].data_dir.joinpath("directory.id").write_text("damaged")
    cluster[1].start()
    assert cluster[1].wait_exit() == 78
    refused = [each for each in _lines(cluster[1])[seen:] if each["level"] == "CRITICAL"]
    assert len(refused) == 1
    assert "directory.id" in refused[0]["message"]
