"""Clients whose histories are judged do not go back to a leader of an older epoch (KIP-320)."""

import asyncio
from random import Random
from typing import Any

import pytest

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import MetadataResponse
from raftka.kafka.wire import client as client_module
from raftka.kafka.wire.requests import Metadata, PartitionState
from tests.simulation.clients import kafka_wire

_ADDRESSES = {node_id: (f"10.0.0.{node_id}", 9092) for node_id in (1, 2, 3)}
_BOOTSTRAP = list(_ADDRESSES.values())

# What brokers tell one after the other: leader and epoch.
_TOLD = [(1, 4), (2, 6), (3, 5), (1, 6), (2, 7), (3, 6), (1, 8)]


async def _leaders(client: Any, answers: list[object], monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Return whom a client that asks again and again takes for the leader after each answer; None: it knows none."""
    left = iter(answers)

    async def call(*_: object) -> object:
        return next(left)

    monkeypatch.setattr(client, "call", call)
    found: list[int | None] = []
    for _ in answers:
        client.forget("t", 0)
        try:
            told = await client.leader("t", 0)
        except (kafka_wire.NotSentError, client_module.NotSentError):
            found.append(None)
            continue
        address = next(each for each in told if isinstance(each, tuple))
        found.append(next(node_id for node_id, each in _ADDRESSES.items() if each == address))
    return found


def _metadata_response(leader: int, epoch: int) -> MetadataResponse:
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node_id, host=host, port=port)
        for node_id, (host, port) in _ADDRESSES.items()
    ]
    error = ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE
    partition = MetadataResponse.MetadataResponsePartition(
        error_code=error, partition_index=0, leader_id=leader, leader_epoch=epoch
    )
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[partition])
    return MetadataResponse(brokers=brokers, topics=[topic])


def _after(told: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    client = kafka_wire.KafkaWire(None, _BOOTSTRAP, Random(1), "test")  # type: ignore[arg-type]
    # Of any version: what is told is told on purpose.
    monkeypatch.setattr(kafka_wire, "_EPOCHS_SINCE", 13)
    monkeypatch.setattr(kafka_wire, "_EPOCHS_TRUSTED_SINCE", 0)
    return asyncio.run(_leaders(client, [_metadata_response(*each) for each in told], monkeypatch))


def _chaos_after(told: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    client = client_module.WireClient(_BOOTSTRAP, Random(1), "test")
    answers: list[object] = [
        Metadata(_ADDRESSES, 1, {("t", 0): PartitionState(leader, epoch, [1, 2, 3], [1, 2, 3])})
        for leader, epoch in told
    ]
    return asyncio.run(_leaders(client, answers, monkeypatch))


def test_a_simulated_client_follows_no_older_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _after(_TOLD, monkeypatch) == [1, 2, None, 1, 2, None, 1]


@pytest.mark.parametrize("nobody", [(3, -1), (-1, -1)])
def test_a_client_that_is_told_no_epoch_follows_anybody(
    nobody: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = [(2, 7), nobody, (1, 6)]
    found = [2, 3 if nobody[0] > 0 else None, 1]
    assert _after(told, monkeypatch) == found
    assert _chaos_after(told, monkeypatch) == found


def test_a_client_that_is_told_the_epoch_of_nobody_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [(2, 7), (-1, 7), (1, 6), (3, 8)]
    assert _after(told, monkeypatch) == [2, None, None, 3]
    assert _chaos_after(told, monkeypatch) == [2, None, None, 3]


def test_the_client_of_chaos_runs_stays_with_the_newest_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _chaos_after(_TOLD, monkeypatch) == [1, 2, 2, 1, 2, 2, 1]
