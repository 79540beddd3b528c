"""Partitions move between three real brokers by the command line, under load, and no acknowledged record is lost."""

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.process.acked_log import LoadProducer, check_no_phantom, check_nothing_acked_is_lost, read_all
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually
from tests.process.cli.living_operator import LivingOperator
from tests.process.command_line import RAFTKA, environment
from tests.process.terminals import ROOT, console_blocks

pytestmark = pytest.mark.process

NODES = {1, 2, 3}
PAGE = ROOT / "docs" / "operations" / "moving.md"


class _Operator(LivingOperator):
    """Types commands, and reads what they tell of partitions."""

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """As `type`, however it ends."""
        variables = environment() | {"RAFTKA_BROKERS": self.alive}
        return subprocess.run([*RAFTKA, *arguments], capture_output=True, text=True, timeout=90, env=variables)

    def replicas(self, topic: str) -> list[list[int]]:
        rows: list[dict[str, Any]] = json.loads(self.type("partition", "list", topic, "-f", "json").stdout)
        return [row["replicas"] for row in rows]

    def leader(self, topic: str) -> int:
        rows = json.loads(self.type("partition", "list", topic, "-f", "json").stdout)
        return int(rows[0]["leader"])

    def moves(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.type("partition", "moves", "-f", "json").stdout)
        return found


@pytest.fixture(name="operator")
def fixture_operator(living_cluster: BrokerCluster) -> _Operator:
    return _Operator(living_cluster)


def test_a_loaded_partition_moves_is_cancelled_and_changes_its_replicas_without_loss(operator: _Operator) -> None:
    bootstrap = operator.cluster.bootstrap
    operator.type("topic", "create", "t", "-p", "1", "-r", "1")
    ((first,),) = operator.replicas("t")
    second, third = sorted(NODES - {first})
    with LoadProducer(bootstrap, "t", "load") as load:
        load.wait_acked(200)
        # A dry run moves nothing.
        tried = operator.type("partition", "move", "t/0", "--to", str(second), "--dry-run")
        assert tried.stdout == f"t/0: would move to {second}\nnothing is changed (--dry-run)\n"
        assert operator.moves() == []
        done = operator.type("partition", "move", "t/0", "--to", str(second), "--wait")
        assert done.stdout == f"t/0: moves to {second}\n"
        assert (operator.replicas("t"), operator.moves()) == ([[second]], [])
        load.wait_acked(200)
        # The broker that is to get it next is dead: the move waits, says so, and is taken back.
        operator.cluster.brokers[third].kill()
        operator.type("partition", "move", "t/0", "--to", str(third))

        def stuck() -> dict[str, Any] | None:
            (row,) = operator.moves()
            return row if row["state"] == "copying" and str(third) in row["waits_for"] else None

        row = eventually("the move waits for the dead broker", stuck)
        assert (row["learners"], row["away"], row["lost_voter_sets"]) == ([third], [third], [])
        operator.type("partition", "cancel", "t/0", "--wait")
        assert (operator.replicas("t"), operator.moves()) == ([[second]], [])
        refused = operator.type("partition", "cancel", "t/0", code=1)
        assert "NO_REASSIGNMENT_IN_PROGRESS" in refused.stderr
        load.wait_acked(200)
        operator.cluster.brokers[third].start()
        operator.cluster.brokers[third].wait_ready()
        # One replica becomes three, one, and three again.
        for count in (3, 1, 3):
            leader = operator.leader("t")
            operator.type("topic", "alter-replication", "t", "-r", str(count), "--wait")
            (replicas,) = operator.replicas("t")
            assert (len(replicas), leader in replicas, operator.moves()) == (count, True, [])
            load.wait_acked(200)
        log = load.finish()
    records = read_all(bootstrap, "t")
    check_nothing_acked_is_lost(records, log)
    check_no_phantom(records, [log])
    assert not log.failed


def test_what_cannot_move_is_refused_with_one_line_for_each(operator: _Operator) -> None:
    operator.type("topic", "create", "t", "-p", "2", "-r", "1")
    ((first,), _) = operator.replicas("t")
    other = min(NODES - {first})
    for arguments, words in (
        (("partition", "move", "t/0", "--to", "9"), "INVALID_REPLICA_ASSIGNMENT"),
        (("partition", "move", "t/0", "--to", f"{first},{first}"), "INVALID_REPLICA_ASSIGNMENT"),
        (("partition", "move", "t/0", "--to", f"{first},{other}"), "(INVALID_REPLICATION_FACTOR); --change-count"),
        (("partition", "move", "t/7", "--to", "1"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("partition", "cancel", "t/0"), "NO_REASSIGNMENT_IN_PROGRESS"),
        (("topic", "alter-replication", "t", "-r", "4"), "from 1 to the number of active brokers, 3"),
        (("topic", "alter-replication", "nobody", "-r", "3"), "nobody"),
    ):
        done = operator.type(*arguments, code=1)
        (line,) = done.stderr.splitlines()
        assert words in line
    # Of several, what may move does.
    done = operator.type("partition", "move", "t/0", "t/7", "--to", str(other), "--wait", code=1)
    assert done.stdout == f"t/0: moves to {other}\n"
    assert operator.replicas("t")[0] == [other]
    for text in ("t", "t/", "t/-1", "t/01", "/0"):
        done = operator.type("partition", "move", text, "--to", "1", code=64)
        assert "TOPIC/PARTITION" in done.stderr
    assert operator.type("partition", "cancel", "--all").stdout == "no partition is being moved\n"


def test_a_group_whose_voters_cannot_form_a_quorum_is_named_by_health_and_doctor(tmp_path: Path) -> None:
    maker = ClusterMaker(tmp_path)
    try:
        cluster = maker(5)
        cluster.start()
        operator = _Operator(cluster)
        operator.type("topic", "create", "t", "-p", "1", "-r", "1")
        ((holder,),) = operator.replicas("t")
        target = 1 if holder != 1 else 2
        cluster[target].kill()
        operator.type("partition", "move", "t/0", "--to", str(target))
        cluster[holder].kill()
        # The voters are unknown, but all that they may be are away; raft0 has its majority.
        away = ",".join(map(str, sorted((holder, target))))

        def told() -> str | None:
            done = operator.run("cluster", "health")
            return done.stdout if "no quorum: t-0" in done.stdout and done.returncode == 1 else None

        eventually("health names the group", told)
        assert f"start brokers {away}" in operator.type("cluster", "health", code=1).stdout
        found = operator.type("doctor", "cluster", code=1).stdout
        assert f"problem  quorum: no majority of the voters {away} answers" in found
        assert "decides nothing by itself" in found
        # Once one of them is back it goes on, and the move ends when both are.
        for node in (holder, target):
            cluster[node].start()
        cluster.wait_ready()
        eventually("the move has ended", lambda: operator.replicas("t") == [[target]] and not operator.moves())
        eventually("all is well", lambda: operator.run("cluster", "health").returncode == 0)
    finally:
        maker.stop()


def test_the_commands_of_the_page_print_what_it_says(tmp_path: Path) -> None:
    blocks = {title: steps for title, (steps,) in console_blocks(PAGE).items()}
    maker = ClusterMaker(tmp_path)
    try:
        cluster = maker(4)
        cluster.start()
        operator = _Operator(cluster)
        for name, nodes in (("orders", "1,2,3"), ("logs", "1")):
            operator.type("topic", "create", name, "-p", "1", "-r", "3" if "," in nodes else "1")
            operator.type("partition", "move", f"{name}/0", "--to", nodes, "--wait")
        for step in (*blocks["Move"], *blocks["Number of replicas"]):
            assert operator.type(*shlex.split(step.command)[1:]).stdout.splitlines() == step.printed
        for step in blocks["Verbs"]:
            typed = step.command.replace("127.0.0.1:9644", cluster[1].admin)
            done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, timeout=90)
            assert done.stdout.splitlines() == step.printed
        # A move that cannot end is there to be listed and cancelled.
        operator.type("partition", "move", "orders/0", "--to", "1,2,3", "--wait")
        cluster[4].kill()
        operator.type("partition", "move", "orders/0", "--to", "2,3,4")
        (listed,) = blocks["Watch"]
        head, row = operator.type(*shlex.split(listed.command)[1:]).stdout.splitlines()
        assert (head.split(), row.split()[:3]) == (listed.printed[0].split(), listed.printed[1].split()[:3])
        for step in blocks["Cancel"]:
            assert operator.type(*shlex.split(step.command)[1:]).stdout.splitlines() == step.printed
    finally:
        maker.stop()


def test_ctrl_c_ends_the_wait_and_not_the_move(operator: _Operator) -> None:
    operator.type("topic", "create", "t", "-p", "1", "-r", "1")
    ((first,),) = operator.replicas("t")
    second, third = sorted(NODES - {first})
    operator.cluster.brokers[second].kill()
    alive = ",".join(broker.kafka for broker in operator.cluster.brokers.values() if broker.is_running)
    command = [*RAFTKA, "partition", "move", "t/0", "--to", str(second), "--wait", "--brokers", alive]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        try:
            assert process.stderr is not None
            assert "to be moved: t/0 is" in process.stderr.readline()
            process.send_signal(2)
            assert process.wait(30) == 130
        finally:
            process.kill()
    assert [row["target"] for row in operator.moves()] == [[second]]
    operator.type("partition", "move", "t/0", "--to", str(third), "--wait")
    assert operator.replicas("t") == [[third]]
