"""Verbs about features, at the admin ports of three nodes: what they raise, what they try, and what they refuse."""

from contextlib import asynccontextmanager

import msgspec
import pytest

from cluster.events import EventKind
from cluster.founding_words import FOUND
from model.features import COMPACTION, MEMBERSHIP, TRANSACTION_VERSION, LevelRange
from model.ids import NodeId
from tests.unit.cluster.cluster_nodes import Cluster, run, until
from tests.unit.raftka.admin_ports import ports_of

OLDER, NEWER = {MEMBERSHIP: LevelRange(0, 0)}, {MEMBERSHIP: LevelRange(0, 1)}
UPGRADE = "/v1/features/upgrade"


class _Upgraded(Cluster):
    """Three nodes of an older version, which are started again as nodes of a newer one: the level stays."""

    def __init__(self, directory):
        super().__init__(directory, 3)
        self.offered = dict.fromkeys((1, 2, 3), OLDER)

    def make(self, number, **changes):
        return super().make(number, **{"features": self.offered[number], **changes})


@asynccontextmanager
async def _ports(directory, newer=(1, 2, 3)):
    cluster = _Upgraded(directory)
    await cluster.start()
    await cluster.stop()
    cluster.offered |= dict.fromkeys(newer, NEWER)
    async with ports_of(cluster) as ports:
        # A broker that has just been started in another version is registered as what it was for a moment.
        told = [{MEMBERSHIP: 1} if number in newer else {} for number in (1, 2, 3)]
        brokers = [node.controller.members for node in cluster.nodes.values()]
        await until(lambda: all([table.get(NodeId(each)).features for each in (1, 2, 3)] == told for table in brokers))
        yield ports


async def _levels(ports, at=1):
    status, body = await ports.ask("/v1/features", at=at)
    assert status == 200
    return {row["feature"]: (row["level"], row["highest"]) for row in body["features"]}


def _told(node, kind=EventKind.FEATURE_RAISED):
    return [event.text for event in node.events.since(1) if event.kind is kind]


def test_a_feature_is_raised_as_high_as_all_brokers_allow_and_a_dry_run_raises_nothing(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            assert await _levels(ports) == {MEMBERSHIP: (0, 1)}
            status, body = await ports.ask(UPGRADE, {"dry_run": True}, at=2)
            assert (status, body["dry_run"], body["waits_for"], body["levels"]) == (200, True, "", {MEMBERSHIP: 1})
            assert await _levels(ports, at=2) == {MEMBERSHIP: (0, 1)}
            assert all(node.controller.features.all() == {} for node in cluster.nodes.values())
            status, body = await ports.ask(UPGRADE, {}, at=3)
            assert (status, body["levels"]) == (200, {MEMBERSHIP: 1})
            assert body["features"] == [
                {"feature": MEMBERSHIP, "level": 1, "highest": 1, "brokers": {"1": 1, "2": 1, "3": 1}}
            ]
            # Once more does no harm, by any broker, with the level and without it.
            await until(lambda: all(node.controller.features.level(MEMBERSHIP) for node in cluster.nodes.values()))
            await until(cluster.has_controller)
            status, body = await ports.ask(UPGRADE, {"levels": {MEMBERSHIP: 1}})
            assert (status, body["levels"]) == (200, {MEMBERSHIP: 1})
            status, body = await ports.ask(UPGRADE, {})
            assert (status, body["levels"], body["waits_for"]) == (200, {}, "")
            for node in cluster.nodes.values():
                assert _told(node) == [f"{MEMBERSHIP} is used at level 1, and was at level 0"]

    run(test)


def test_a_level_that_a_broker_lacks_is_refused_with_its_name_and_one_that_is_away_counts(tmp_path):
    async def test():
        async with _ports(tmp_path, newer=(1, 2)) as ports:
            assert await _levels(ports) == {MEMBERSHIP: (0, 0)}
            status, body = await ports.ask(UPGRADE, {})
            assert (status, body["levels"]) == (200, {})
            for is_dry in (True, False):
                wanted = {"levels": {MEMBERSHIP: 1}, "dry_run": is_dry}
                status, body = await ports.ask(UPGRADE, wanted)
                assert (status, body["error"]) == (409, "FEATURE_UPDATE_FAILED")
                assert "broker 3 has 0; start a newer version on these brokers first" in body["message"]
            status, body = await ports.ask(UPGRADE, {"levels": {"nope": 1}})
            assert (status, body["error"]) == (409, "FEATURE_UPDATE_FAILED")
            assert body["message"].startswith("no broker has a feature 'nope': `raftka cluster features list`")
            await ports.cluster.stop(3)
            await until(lambda: not ports.cluster[1].is_alive(3))
            status, body = await ports.ask(UPGRADE, {"levels": {MEMBERSHIP: 1}})
            assert (status, body["error"]) == (409, "FEATURE_UPDATE_FAILED")
            assert await _levels(ports) == {MEMBERSHIP: (0, 0)}

    run(test)


def _table_says(node, number, features):
    """Let a node's table have other features of a broker, as after a roll-back (RFC 0018 section 2)."""
    table = node.controller.members
    table.apply_register(msgspec.structs.replace(table.get(NodeId(number)), features=features))


def test_an_upgrade_without_levels_asks_the_brokers_that_the_table_knows_less_of(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            for number in (1, 2, 3):
                _table_says(ports.cluster[2], number, {})
            status, body = await ports.ask(UPGRADE, {"dry_run": True}, at=2)
            assert (status, body["levels"]) == (200, {MEMBERSHIP: 1})

    run(test)


def test_an_upgrade_without_levels_offers_none_that_a_broker_has_no_longer(tmp_path):
    async def test():
        async with _ports(tmp_path, newer=(1, 2)) as ports:
            for node in ports.cluster.nodes.values():
                _table_says(node, 3, {MEMBERSHIP: 1})
            status, body = await ports.ask(UPGRADE, {})
            assert (status, body["levels"]) == (200, {})

    run(test)


def test_an_upgrade_without_levels_is_refused_while_a_linked_broker_does_not_answer(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            ports.cluster[3].links._server._methods.pop(FOUND.number)
            status, body = await ports.ask(UPGRADE, {})
            assert (status, body["error"]) == (409, "FEATURE_UPDATE_FAILED")
            assert "broker 3 is linked and has not told what its version has" in body["message"]

    run(test)


def test_an_upgrade_says_which_broker_is_away_and_raises_the_level_all_the_same(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.stop(3)
            await until(lambda: not cluster[1].is_alive(3))
            await until(cluster.has_controller)
            status, body = await ports.ask(UPGRADE, {}, at=1)
            assert (status, body["levels"]) == (200, {MEMBERSHIP: 1})
            assert "3 to come back" in body["waits_for"]
            await cluster.start(3)
            await until(lambda: cluster[3].controller.features.level(MEMBERSHIP) == 1)
            # It happened before this process registered, so it is no event of this process.
            assert _told(cluster[3]) == []

    run(test)


@pytest.mark.parametrize(
    ("document", "status", "error"),
    [
        ({"levels": {MEMBERSHIP: 0}}, 400, "INVALID_REQUEST"),
        ({"levels": {MEMBERSHIP: "1"}}, 400, "INVALID_REQUEST"),
        ({"levels": {MEMBERSHIP: 2**15}}, 400, "INVALID_REQUEST"),
        ({"levels": {"": 1}}, 400, "INVALID_REQUEST"),
        ({"levels": [MEMBERSHIP]}, 400, "INVALID_REQUEST"),
        ({"level": 1}, 400, "INVALID_REQUEST"),
        ({"levels": {MEMBERSHIP: 2}}, 409, "FEATURE_UPDATE_FAILED"),
        ({"levels": {"nobody.has.this": 1}}, 409, "FEATURE_UPDATE_FAILED"),
        # The first one could be raised, and is not, for the other one cannot.
        ({"levels": {MEMBERSHIP: 1, "nobody.has.this": 1}}, 409, "FEATURE_UPDATE_FAILED"),
    ],
)
def test_an_upgrade_that_cannot_be_is_refused_as_a_whole(tmp_path, document, status, error):
    async def test():
        async with _ports(tmp_path) as ports:
            found, body = await ports.ask(UPGRADE, document)
            assert (found, body["error"]) == (status, error)
            assert await _levels(ports) == {MEMBERSHIP: (0, 1)}

    run(test)


DOWNGRADE = "/v1/features/downgrade"


def test_a_feature_is_lowered_and_a_dry_run_lowers_nothing(tmp_path):
    lower, levels = {TRANSACTION_VERSION: 1}, {COMPACTION: (1, 1), MEMBERSHIP: (1, 1), TRANSACTION_VERSION: (2, 2)}

    async def test():
        async with ports_of(Cluster(tmp_path, 3)) as ports:
            assert await _levels(ports) == levels
            for document, status, says in [
                ({}, 400, "levels"),
                ({"levels": {}}, 400, "levels"),
                ({"levels": {TRANSACTION_VERSION: 0}}, 400, "levels"),
                ({"levels": {TRANSACTION_VERSION: 3}}, 409, "is not lowered to level 3"),
                # The first one could be lowered, and is not, for the other one cannot.
                ({"levels": {**lower, "nobody.has.this": 1}}, 409, "nobody.has.this"),
            ]:
                found, body = await ports.ask(DOWNGRADE, document, at=2)
                assert (found, says in body["message"]) == (status, True), body
            status, body = await ports.ask(DOWNGRADE, {"levels": lower, "dry_run": True})
            assert (status, body["levels"], await _levels(ports)) == (200, lower, levels)
            status, body = await ports.ask(DOWNGRADE, {"levels": lower}, at=3)
            assert (status, body["levels"], body["waits_for"]) == (200, lower, "")
            assert await _levels(ports, at=3) == levels | {TRANSACTION_VERSION: (1, 2)}
            nodes, lowered = ports.cluster.nodes.values(), EventKind.FEATURE_LOWERED
            await until(lambda: all(_told(node, lowered) for node in nodes))
            for node in nodes:
                assert _told(node, lowered) == ["transaction.version is used at level 1, and was at level 2"]
                assert not any(TRANSACTION_VERSION in text for text in _told(node))

    run(test)
