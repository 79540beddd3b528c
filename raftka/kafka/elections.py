"""Preferred replicas that are to lead, on any Kafka: ElectLeaders, by the wire client, and what Metadata says of it."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftka.config import parse_address
from raftka.error_text import reason_of
from raftka.kafka import client as kafka_client
from raftka.kafka.client import CREATE_SECONDS, ClusterInfo, PartitionInfo
from raftka.kafka.errors import KafkaClientError, UnansweredError
from raftka.kafka.groups import Partition
from raftka.kafka.wire.client import LostError, NotSentError, WireClient
from raftka.kafka.wire.election_requests import ElectionResult, Elections, elect_preferred_leaders

_NOT_NEEDED = 84


class Election(NamedTuple):
    """What became of one partition; `refusal` is empty if its preferred replica leads, `was_needed` if it did not."""

    was_needed: bool
    refusal: str


def elect_preferred(
    brokers: str, cluster: ClusterInfo, partitions: Sequence[Partition] | None
) -> Mapping[Partition, Election]:
    """Let the first replica of each of these partitions lead; None: of all that need it, and no other is returned.

    Raises:
        UnansweredError: It may be under way.
        KafkaClientError: Refused as a whole, or no answer.
    """
    # Any broker of Raftka's passes it on; others want their controller to be asked.
    address = cluster.brokers.get(cluster.controller) or next(iter(cluster.brokers.values()))
    future = kafka_client.in_background(lambda: asyncio.run(_ask(address, partitions)), NotSentError, LostError)
    try:
        answer = kafka_client.result_of(future, brokers, 2 * CREATE_SECONDS)
    except NotSentError as error:
        raise KafkaClientError(f"{address}: {error}") from None
    except (LostError, TimeoutError) as error:
        kafka_client.check_quorum(brokers)
        raise UnansweredError(f"{address}: {reason_of(error)}; replicas may still be elected") from None
    if answer.code:
        raise KafkaClientError(f"{address}: {_words(answer.code)}")
    return {(each.topic, each.partition): _election(each) for each in sorted(answer.results)}


def check_preferred(cluster: ClusterInfo, partitions: Sequence[Partition] | None) -> Mapping[Partition, Election]:
    """Return what an election would come to as far as Metadata tells; the arguments are those of `elect_preferred`."""
    known = {(topic, each.partition): each for topic, found in cluster.topics.items() for each in found}
    judged = {where: _judged(known[where]) for where in sorted(known if partitions is None else partitions)}
    return {where: each for where, each in judged.items() if each.was_needed or partitions is not None}


def _judged(found: PartitionInfo) -> Election:
    preferred = found.replicas[0]
    if found.leader < 0:
        return Election(True, "nobody leads, who could hand over")
    if found.leader == preferred:
        return Election(False, "")
    is_fit = preferred in found.in_sync
    return Election(True, "" if is_fit else f"the preferred replica, on node {preferred}, is not in sync")


async def _ask(address: str, partitions: Sequence[Partition] | None) -> Elections:
    client = WireClient([parse_address(address)], random.Random(), "raftka")
    try:
        request = elect_preferred_leaders(partitions, round(CREATE_SECONDS * 1000))
        return await client.call(client.bootstrap[0], request, CREATE_SECONDS + kafka_client.REQUEST_SECONDS)
    finally:
        client.close()


def _election(result: ElectionResult) -> Election:
    if result.code == _NOT_NEEDED:
        return Election(False, "")
    return Election(True, (result.message or _words(result.code)) if result.code else "")


def _words(code: int) -> str:
    from confluent_kafka import KafkaError

    return kafka_client.error_text(KafkaError(code))
