"""Three real brokers, one of which loses its disk: `raftka broker replace` and a start are all that is typed.

Then the old disk returns. The other commands of `raftka broker` are typed as well.
"""

import json
import shutil
from typing import Any

import pytest

from raftka.admin_client import get_json
from raftka.kafka.client import read_cluster
from tests.process.acked_log import LoadProducer, check_no_phantom, check_nothing_acked_is_lost, read_all
from tests.process.broker_processes import ClusterMaker, eventually
from tests.process.cli.living_operator import LivingOperator

pytestmark = pytest.mark.process

REFUSED = "is retired and never counts again"


class _Operator(LivingOperator):
    """Types commands, and reads what they tell of brokers."""

    def brokers(self) -> dict[int, dict[str, Any]]:
        rows = json.loads(self.type("broker", "list", "-f", "json").stdout)
        return {row["node_id"]: row for row in rows}

    def await_link_down(self, node: int) -> None:
        """Wait until each broker that runs has lost its link to that one."""

        def is_down() -> bool:
            rows = [get_json(each.admin, "/v1/brokers")[1] for each in self.cluster.brokers.values() if each.is_running]
            return not any(row["alive"] for found in rows for row in found if row["node_id"] == node)

        eventually(f"broker {node} is down", is_down)


@pytest.fixture(name="operator")
def fixture_operator(make_cluster: ClusterMaker) -> _Operator:
    # Few partitions are moved sooner.
    cluster = make_cluster(3, **{"offsets.topic.num.partitions": 4})
    cluster.start()
    return _Operator(cluster)


def test_a_lost_disk_is_replaced_under_load_and_the_old_one_is_refused_when_it_returns(operator: _Operator) -> None:
    cluster, three = operator.cluster, operator.cluster.brokers[3]
    operator.type("topic", "create", "t", "-p", "1", "-r", "3")
    old = operator.brokers()[3]["directory_id"]
    kept = cluster.folder / "kept"
    with LoadProducer(cluster.bootstrap, "t", "load") as load:
        load.wait_acked(200)
        refused = operator.type("broker", "replace", "3", code=1)
        assert refused.stderr.count("\n") == 1
        assert "sees its link work" in refused.stderr
        three.terminate()
        operator.await_link_down(3)
        shutil.copytree(three.data_dir, kept)
        shutil.rmtree(three.data_dir)
        tried = operator.type("broker", "replace", "3", "--dry-run")
        assert tried.stdout == (f"broker 3: data directory {old} would be retired\nnothing is changed (--dry-run)\n")
        done = operator.type("broker", "replace", "3")
        first, waits, step = done.stdout.splitlines()
        assert first == f"broker 3: data directory {old} is retired"
        assert waits.startswith("waits for broker 3 to join with an empty data.dir; ")
        assert step == "next: start broker 3 with an empty data.dir"
        assert operator.brokers()[3]["directory_retired"]
        health = operator.type("cluster", "health", code=1).stdout
        assert "missing brokers: none" in health
        assert "start broker 3 with an empty data.dir" in health
        load.wait_acked(200)
        three.start()
        three.wait_ready()
        # RF 3 again, with no other step.
        operator.type("broker", "replace", "3", "--directory", old, "--wait")
        new = operator.brokers()[3]["directory_id"]
        # Typed once more after a time-out: the new directory is not the one that was meant.
        again = operator.type("broker", "replace", "3", code=1)
        assert again.stderr.count("\n") == 1
        assert f"raftka broker replace 3 --directory {new}" in again.stderr
        cluster.wait_caught_up("t", 0)
        load.wait_acked(200)
        log = load.finish()
    row = operator.brokers()[3]
    assert (row["directory_retired"], row["directory_id"] == old, row["alive"]) == (False, False, True)
    records = read_all(cluster.bootstrap, "t")
    check_nothing_acked_is_lost(records, log)
    check_no_phantom(records, [log])
    eventually("broker 3 votes again", lambda: operator.brokers()[3]["raft0"] == "voter")
    three.terminate()
    shutil.rmtree(three.data_dir)
    shutil.copytree(kept, three.data_dir)
    before = len(three.log_text())
    three.start()
    lines = eventually("it is told why", lambda: _refusals(three.log_text()[before:]))
    assert all("empty data.dir" in line for line in lines)
    # Each of the others refuses it with one line.
    assert len(lines) <= 2, lines
    three.destroy()


def _refusals(text: str) -> list[str]:
    return [line for line in text.splitlines() if REFUSED in line]


def test_a_broker_is_drained_and_what_cannot_be_is_refused_in_one_line(operator: _Operator) -> None:
    operator.type("topic", "create", "t", "-p", "3", "-r", "3")
    listed = operator.type("broker", "list").stdout.splitlines()
    assert listed[0].split()[:6] == ["NODE", "STATE", "LINK", "RAFT0", "REPLICAS", "LED"]
    assert [line.split()[:4] for line in listed[1:]] == [[str(node), "active", "up", "voter"] for node in (1, 2, 3)]
    assert operator.type("broker", "drain", "2").stdout.splitlines()[0] == "broker 2: is drained"
    row = operator.brokers()[2]
    assert (row["state"], row["led"]) == ("draining", 0)
    assert "broker 2: it is being drained" in operator.type("doctor", "cluster").stdout
    assert operator.type("broker", "undrain", "2").stdout == "broker 2: is active\n"
    for arguments, words in (
        (("decommission", "1"), "these topics have more replicas: "),
        (("decommission", "1", "--dry-run"), "these topics have more replicas: "),
        (("remove", "1"), "raftka broker decommission 1"),
        (("drain", "9"), "broker 9 is not in the cluster"),
        (("replace", "9"), "broker 9 is not in the cluster"),
        (("replace", "1", "--directory", "f" * 32), "has data directory"),
    ):
        (line,) = operator.type("broker", *arguments, code=1).stderr.splitlines()
        assert words in line


def test_three_brokers_become_two_and_groups_go_on(operator: _Operator) -> None:
    """The topics of the brokers themselves had three replicas."""
    cluster = operator.cluster
    operator.type("topic", "create", "t", "-p", "2", "-r", "2")
    operator.type("produce", "t", stdin="one\ntwo\n")
    read = operator.type("consume", "t", "-g", "readers", "-e").stdout
    assert sorted(read.splitlines()) == ["one", "two"]
    assert operator.brokers()[3]["replicas"] > 0
    emptied = operator.type("broker", "decommission", "3").stdout
    assert emptied == "broker 3: is empty; next: raftka broker remove 3\n"
    operator.type("broker", "remove", "3")
    cluster.brokers[3].terminate()
    topics = read_cluster(operator.alive).topics
    placed = {name: {node for each in topics[name] for node in each.replicas} for name in ("__consumer_offsets", "t")}
    assert placed == {"__consumer_offsets": {1, 2}, "t": {1, 2}}
    operator.type("produce", "t", stdin="three\n")
    assert operator.type("consume", "t", "-g", "readers", "-e").stdout == "three\n"
    assert operator.type("cluster", "health").stdout.startswith("healthy\nbrokers: 1, 2\nmissing brokers: none\n")


def test_throttles_that_nobody_cleared_are_told_with_commands_that_clear_them(operator: _Operator) -> None:
    operator.type("topic", "create", "t", "-p", "1", "-r", "3")
    key, rate = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
    operator.type("topic", "alter-config", "t", "--set", f"{key}=0:1")
    operator.type("cluster", "config", "set", f"{rate}=1000000", "--node", "2")
    findings = json.loads(operator.type("doctor", "cluster", "-f", "json").stdout)["findings"]
    (found,) = [each for each in findings if each["what"] == "throttles"]
    assert found["level"] == "warning"
    assert "replicas of t are still throttled, at rates that are set on broker 2" in found["words"]
    for command in (
        ("topic", "alter-config", "t", "--delete", key),
        ("cluster", "config", "unset", rate, "--node", "2"),
    ):
        assert " ".join(("raftka", *command)).replace("--node 2", "--node N") in found["cure"]
        operator.type(*command)
    assert "throttles" not in operator.type("doctor", "cluster").stdout
