"""Verbs about who leads partitions.

POST  /v1/partitions/elect-preferred  {"partitions": [{"topic", "partition"}]}, or {"all": true}

The preferred replica, the first of a partition's list, leads then. Each partition is elected or refused by itself, as
by Kafka's ElectLeaders; a dry run asks its leader whether it would hand over now. With `all` those are left out whose
preferred replica leads already. If all are refused, the answer is an error, that of the first; it has `partitions` all
the same.
"""

import asyncio
from collections.abc import Mapping, Sequence

from cluster.node import Node
from kafka_api.preferred_leaders import Election, elect_preferred, few_at_a_time
from kafka_api.protocol.error_codes import ErrorCode
from raftka.broker.admin_verbs import Change, Changing, Outcome, Verb, VerbError, refusal_by
from raftka.broker.move_verbs import NamedPartition

_DONE = (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)
_NAMED_MAX = 3
_Elected = tuple[tuple[str, int], Election]


class ElectPreferred(Changing, frozen=True, kw_only=True):
    """Those that are named, or all."""

    partitions: tuple[NamedPartition, ...] = ()
    all: bool = False


async def _elect(node: Node, body: ElectPreferred, _: Mapping[str, str]) -> Outcome:
    if body.all == bool(body.partitions):
        raise VerbError(400, ErrorCode.INVALID_REQUEST.name, 'name "partitions", or say "all": true')
    named = ((each.topic, each.partition) for each in body.partitions)
    asked = _all(node) if body.all else list(dict.fromkeys(named))
    deadline = asyncio.get_running_loop().time() + body.timeout

    async def elect(name: str, number: int) -> Election:
        return await elect_preferred(node, name, number, deadline, is_dry_run=body.dry_run)

    elected = [each async for each in few_at_a_time(asked, elect)]
    if body.all:
        elected = [each for each in elected if each[1].code != ErrorCode.ELECTION_NOT_NEEDED]
    rows = [_row(*each) for each in elected]
    if rows and all(row["error"] for row in rows):
        first = elected[0][1]
        raise refusal_by(first.code, str(rows[0]["message"]), {"partitions": rows})
    return Outcome("" if body.dry_run else _unheard(node, elected), {"partitions": rows})


def _all(node: Node) -> list[tuple[str, int]]:
    return [(topic.name, number) for topic in node.controller.topics.all() for number in range(len(topic.replicas))]


def _row(partition: tuple[str, int], election: Election) -> dict[str, object]:
    """Return what is told of a partition; `leader` leads then, `message` says why it is not the preferred replica."""
    is_done = election.code in _DONE
    leader = election.preferred if is_done else election.leader_before
    unknown = f"no partition {partition[0]}-{partition[1]}"
    return {
        "topic": partition[0],
        "partition": partition[1],
        "preferred": election.preferred,
        "leader_before": election.leader_before,
        "leader": leader,
        "error": None if is_done else election.code.name,
        "message": None if is_done else election.message or unknown,
    }


def _unheard(node: Node, elected: Sequence[_Elected]) -> str:
    """Return, as what is waited for, the elections of which this broker has not heard yet."""
    waiting = []
    for (name, number), election in elected:
        topic = node.controller.topics.get(name)
        if election.code != ErrorCode.NONE or topic is None or number >= len(topic.replicas):
            continue
        leader = node.leadership.leader_of(topic.group(number))
        if leader is None or leader.node_id != election.preferred:
            waiting.append(f"{name}-{number}")
    more = len(waiting) - _NAMED_MAX
    names = ", ".join(waiting[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"news of the new leader of {names}: GET /v1/partitions tells it" * bool(waiting)


LEADER_VERBS: tuple[Verb, ...] = (Change("/v1/partitions/elect-preferred", ElectPreferred, _elect),)
