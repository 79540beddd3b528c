"""Verbs about features and their levels (RFC 0018).

GET   /v1/features          a row for each feature: its level, what all brokers have, and what each of them has
POST  /v1/features/upgrade  {"levels": {NAME: LEVEL}}; without it: each feature as high as all brokers allow
POST  /v1/features/downgrade  {"levels": {NAME: LEVEL}}: features whose level may be lowered

What brokers have is as raft0's tables say, which may be wrong after a roll-back (RFC 0018 section 2). So an upgrade
without levels asks the brokers first, as raft0's leader does before it raises a level.

Both check all levels before they change the first one. Who sends a request again changes nothing twice.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated

import msgspec

from cluster.admin_messages import UpdateFeatureRequest
from cluster.node import Node
from model.ids import NodeId
from raftka.broker.admin_verbs import Change, Changing, Outcome, Read, Verb, brokers_away, until_known

_Feature = Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
_Level = Annotated[int, msgspec.Meta(ge=1, lt=2**15)]


class UpgradeFeatures(Changing, frozen=True, kw_only=True):
    """Features and the levels that the cluster shall use; none: as high as all brokers can at this moment."""

    levels: dict[_Feature, _Level] = msgspec.field(default_factory=dict)


class DowngradeFeatures(Changing, frozen=True, kw_only=True):
    """Features and the lower levels that the cluster shall use."""

    levels: Annotated[dict[_Feature, _Level], msgspec.Meta(min_length=1)]


async def _list(node: Node, _: Mapping[str, str]) -> object:
    return {"features": _rows(node)}


def _rows(node: Node) -> list[dict[str, object]]:
    """Return a row for each feature that a registered broker offers above level 0, or that is in force."""
    brokers, levels = node.controller.members.all(), node.controller.features.all()
    names = sorted({*levels, *(name for broker in brokers for name in broker.features)})
    return [
        {
            "feature": name,
            "level": levels.get(name, 0),
            "highest": min((broker.features.get(name, 0) for broker in brokers), default=0),
            "brokers": {str(broker.node_id): broker.features.get(name, 0) for broker in brokers},
        }
        for name in names
    ]


async def _highest(node: Node, timeout: float) -> dict[str, int]:
    """Return the features that all brokers could use at a higher level than the cluster does.

    Raises:
        FeatureUpdateError: A broker is linked with this one, and does not tell what it has.
    """
    members, features = node.controller.members, node.controller.features
    nodes = {NodeId(each.node_id) for each in members.all()} | {each.node_id for each in members.admitted()}
    told = await node.present_features.ask(sorted(nodes), asyncio.get_running_loop().time() + timeout)
    brokers = members.highest_levels(told).values()
    names = sorted({name for levels in brokers for name in levels})
    highest = {name: min(levels.get(name, 0) for levels in brokers) for name in names}
    return {name: level for name, level in highest.items() if level > features.level(name)}


async def _upgrade(node: Node, body: UpgradeFeatures, _: Mapping[str, str]) -> Outcome:
    return await _change(node, body, body.levels or await _highest(node, body.timeout), is_lowering=False)


async def _downgrade(node: Node, body: DowngradeFeatures, _: Mapping[str, str]) -> Outcome:
    return await _change(node, body, body.levels, is_lowering=True)


async def _change(node: Node, body: Changing, wanted: Mapping[str, int], *, is_lowering: bool) -> Outcome:
    index = 0
    # Each level is checked before the first one is changed: most are never lowered again.
    for is_check in (True,) if body.dry_run else (True, False):
        for name, level in wanted.items():
            request = UpdateFeatureRequest(name, level, is_check, body.timeout, is_lowering)
            index = max(index, (await node.admin.update_feature(request)).applied_index)
    await until_known(node, index)
    waits_for = "" if body.dry_run or not wanted else brokers_away(node)
    return Outcome(waits_for, {"levels": wanted, "features": _rows(node)}, index)


FEATURE_VERBS: tuple[Verb, ...] = (
    Read("/v1/features", _list),
    Change("/v1/features/upgrade", UpgradeFeatures, _upgrade),
    Change("/v1/features/downgrade", DowngradeFeatures, _downgrade),
)
