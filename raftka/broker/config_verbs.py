"""Verbs about options that are set on brokers while they run (RFC 0018 section 4).

GET   /v1/config  what is set: for all brokers, and on each that has something of its own
POST  /v1/config  {"node_id": N, "set": {KEY: VALUE}, "unset": [KEY]}; without `node_id`: for all brokers

All keys of a request are changed, or none. To set what is set already, or to unset what is not, changes nothing; the
answer has in `changed` the keys whose value is another one by now.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from cluster.admin_messages import AlterBrokerConfigsRequest
from cluster.errors import UnknownBrokerError
from cluster.node import Node
from cluster.topic_changes import ConfigChange, ConfigOperation
from kafka_api.protocol.error_codes import ErrorCode
from model.ids import NodeId
from raftka.broker.admin_verbs import Change, Changing, Outcome, Read, Verb, VerbError, brokers_away, until_known

_NodeId = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class AlterConfig(Changing, frozen=True, kw_only=True):
    """`node_id`: one broker; without it all, also those that join later. Values are texts, as in a file."""

    node_id: _NodeId | None = None
    changed: dict[str, str] = msgspec.field(name="set", default_factory=dict)
    deleted: tuple[str, ...] = msgspec.field(name="unset", default=())


async def _list(node: Node, _: Mapping[str, str]) -> object:
    options = node.controller.options
    return {"all": options.of(None), "brokers": {str(each): options.of(each) for each in options.nodes()}}


async def _alter(node: Node, body: AlterConfig, _: Mapping[str, str]) -> Outcome:
    changes = [ConfigChange(key, ConfigOperation.SET, value) for key, value in body.changed.items()]
    changes += [ConfigChange(key, ConfigOperation.DELETE, None) for key in body.deleted]
    if not changes:
        raise VerbError(400, ErrorCode.INVALID_REQUEST.name, 'name keys: "set" gives them values, "unset" removes them')
    whose = None if body.node_id is None else NodeId(body.node_id)
    # A broker that has just started may know nothing of what is set.
    await node.admin.catch_up(body.timeout)
    before = dict(node.controller.options.of(whose))
    request = AlterBrokerConfigsRequest(body.node_id, changes, False, body.dry_run, body.timeout)
    try:
        index = (await node.admin.alter_broker_configs(request)).applied_index
    except UnknownBrokerError as error:
        raise VerbError(404, ErrorCode.BROKER_ID_NOT_REGISTERED.name, str(error)) from error
    is_known = await until_known(node, index)
    waits_for = "" if body.dry_run else brokers_away(node, whose)
    after = node.controller.options.of(whose)
    # All of the table: it has keys by their own names, a request may name them by others.
    changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    if not is_known and not body.dry_run:
        # The change is made, and this broker has not applied it yet.
        changed = sorted({*body.changed, *body.deleted})
    told = {"node_id": body.node_id, "set": after, "changed": changed}
    return Outcome(
        waits_for,
        told,
        index,
    )


CONFIG_VERBS: tuple[Verb, ...] = (
    Read("/v1/config", _list),
    Change("/v1/config", AlterConfig, _alter),
)
