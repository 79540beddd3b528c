"""franz-go's kadm, sarama and kafkactl move partitions and see how far they have got."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.clients.client import DEADLINE_SECONDS, Abilities
from tests.clients.line_client import LineClient, ProgramError
from tests.clients.programs import go_program
from tests.clients.referee import Referee
from tests.needed_tools import needs_tools
from tests.process.broker_processes import BrokerCluster, eventually
from tests.process.partition_moves import await_moved, replicas_of, throttled

pytestmark = [pytest.mark.process, pytest.mark.long, needs_tools("go")]

PARTITIONS = 2
Moves = dict[int, dict[str, Any]]


@pytest.fixture
def referee(living: BrokerCluster) -> Referee:
    return Referee(living)


@pytest.fixture(params=["franz", "sarama"])
def program(living: BrokerCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LineClient]:
    command, log = go_program(request.param), tmp_path / "log"
    with closing(LineClient(request.param, Abilities(), command, living.bootstrap, log)) as client:
        yield client


def _others(cluster: BrokerCluster, *places: list[int]) -> list[int]:
    """Return the brokers that are in none of these placements."""
    return sorted(cluster.brokers.keys() - {node for place in places for node in place})


def _moves(program: LineClient, topic: str) -> Moves:
    # kafkactl asks for partition 0 more than once, so this does as well.
    told = program.ask("moves", topic=topic, numbers=[*range(PARTITIONS), 0])["moves"]
    return {int(number): move for number, move in told.items()}


def _placements(cluster: BrokerCluster, topic: str) -> list[list[int]]:
    return [replicas_of(cluster, topic, number) for number in range(PARTITIONS)]


def _await_placements(cluster: BrokerCluster, topic: str, wanted: list[list[int]]) -> None:
    """Wait until the broker that tells of the placements has heard of them as well."""
    eventually(
        lambda: f"{topic} on {wanted}: {_placements(cluster, topic)}", lambda: _placements(cluster, topic) == wanted
    )


def test_a_program_moves_partitions_sees_that_and_takes_them_back(
    referee: Referee, living: BrokerCluster, program: LineClient
) -> None:
    topic = f"go-moves.{program.name}"
    referee.create_topic(topic, PARTITIONS, replicas=3)
    referee.fill(topic, ["x" * 1_000] * 400, PARTITIONS)
    before = _placements(living, topic)
    assert _moves(program, topic) == {}
    (new, *_) = _others(living, before[0])
    wanted = [*before[0][1:], new]
    with throttled(living, topic):
        program.ask("assign", topic=topic, assignment=[wanted])
        moves = _moves(program, topic)
        assert (moves.keys(), moves[0]["adding"], moves[0]["removing"]) == ({0}, [new], [before[0][0]])
        assert sorted(moves[0]["replicas"]) == sorted([*before[0], new])
        program.ask("assign", topic=topic, assignment=[None])
        eventually("the move is given up", lambda: not _moves(program, topic))
        _await_placements(living, topic, before)
    with pytest.raises(ProgramError, match=r"(?i)no.?reassignment.?in.?progress|no partition reassignment"):
        program.ask("assign", topic=topic, assignment=[None])
    program.ask("assign", topic=topic, assignment=[wanted])
    await_moved(living, topic, wanted)
    assert _moves(program, topic) == {}


def test_a_program_gives_a_topic_fewer_replicas_and_more_as_kafkactl_does(
    referee: Referee, living: BrokerCluster, program: LineClient
) -> None:
    """All partitions in one request, then the list again and again until it is empty."""
    topic = f"go-counts.{program.name}"
    referee.create_topic(topic, PARTITIONS, replicas=3)
    before = _placements(living, topic)
    for wanted in ([each[:2] for each in before], before, [each[2:] for each in before], before):
        program.ask("assign", topic=topic, assignment=wanted)
        eventually("nothing is being moved", lambda: not _moves(program, topic))
        _await_placements(living, topic, wanted)


def test_kadm_may_forbid_another_number_of_replicas(referee: Referee, living: BrokerCluster, tmp_path: Path) -> None:
    topic = "go-moves.forbidden"
    referee.create_topic(topic, replicas=3)
    before = replicas_of(living, topic)
    command = go_program("franz")
    with closing(LineClient("franz", Abilities(), command, living.bootstrap, tmp_path / "log")) as client:
        assign = partial(client.ask, "assign", topic=topic, keep_count=True)
        with pytest.raises(ProgramError, match="INVALID_REPLICATION_FACTOR"):
            assign(assignment=[before[:2]])
        for targets, error in (
            ([before[0], before[0], before[1]], "INVALID_REPLICA_ASSIGNMENT"),
            ([before[0], before[1], 99], "INVALID_REPLICA_ASSIGNMENT"),
        ):
            with pytest.raises(ProgramError, match=error):
                assign(assignment=[targets])
        with pytest.raises(ProgramError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            client.ask("assign", topic="go-moves.nowhere", assignment=[before])
        wanted = [*before[1:], before[0]]
        assign(assignment=[wanted])
        await_moved(living, topic, wanted)


@pytest.mark.skipif(shutil.which("kafkactl") is None, reason="kafkactl is not installed")
def test_kafkactl_gives_a_topic_fewer_replicas_and_more(
    referee: Referee, living: BrokerCluster, tmp_path: Path
) -> None:
    topic, partitions = "go-counts.kafkactl", 14
    # It takes brokers to which it has no connection for dead ones, and connects to leaders: there must be many.
    referee.create_topic(topic, partitions, replicas=3)
    referee.fill(topic, ["x" * 1_000] * 700, partitions)
    config = tmp_path / "kafkactl.yml"
    brokers = "".join(f"      - {broker.kafka}\n" for broker in living.brokers.values())
    config.write_text(f"contexts:\n  default:\n    brokers:\n{brokers}current-context: default\n")

    def counts() -> set[int]:
        return {len(replicas_of(living, topic, number)) for number in range(partitions)}

    for count in (2, 3):
        done = subprocess.run(
            ["kafkactl", "-C", str(config), "alter", "topic", topic, "-r", str(count)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        )
        assert done.returncode == 0, done
        assert "partition replicas have been reassigned" in done.stdout + done.stderr
        eventually(f"{count} replicas each", lambda wanted=count: counts() == {wanted})
    assert len(referee.read(topic, 50)) == 50
