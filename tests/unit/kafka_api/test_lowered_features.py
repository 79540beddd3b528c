"""Levels of `transaction.version` on the wire: what ApiVersions tells of it, how it is raised, and how it is lowered."""

import asyncio

import pytest
from test_update_features import told, update
from wire_client import broker_in

from kafka_api.protocol.error_codes import ErrorCode
from model.features import COMPACTION, GROUP_VERSION, KNOWN, MEMBERSHIP, TRANSACTION_VERSION, LevelRange
from tests.process.command_line import raftka
from tests.unit.cluster.cluster_nodes import run

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def with_broker(path, test, features=None):
    async def whole():
        async with broker_in(path, features=features) as broker:
            await test(broker, await broker.client())

    run(whole)


async def level_of(client):
    return (await told(client))[2].get(TRANSACTION_VERSION, 0)


def test_a_feature_that_is_not_offered_is_in_no_answer_and_is_not_raised(tmp_path):
    async def test(broker, client):
        for version in (3, 4):
            supported, _, levels = await told(client, version)
            assert (supported.keys() | levels.keys()) <= KNOWN.keys() - {GROUP_VERSION}
        answer = await update(client, (GROUP_VERSION, 1))
        assert answer.results[0].error_code == ErrorCode.FEATURE_UPDATE_FAILED
        assert answer.results[0].error_message.startswith("group.version cannot be at level 1: broker 1 has 0")

    with_broker(tmp_path, test)


def test_version_3_leaves_the_feature_out_because_its_lowest_level_is_0(tmp_path):
    async def test(broker, client):
        levels = {COMPACTION: 1, MEMBERSHIP: 1, TRANSACTION_VERSION: 2}
        supported = {name: (0, level) for name, level in levels.items()}
        assert await told(client, version=3) == ({}, 3, levels)
        assert await told(client, version=4) == (supported, 3, levels)

    with_broker(tmp_path, test)


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (0, {"allow_downgrade": True}),
        (1, {"upgrade_type": SAFE_DOWNGRADE}),
        (1, {"upgrade_type": UNSAFE_DOWNGRADE}),
        (2, {"upgrade_type": SAFE_DOWNGRADE}),
    ],
)
def test_transactions_are_lowered_and_raised_again_at_every_version(tmp_path, version, fields):
    async def test(broker, client):
        epoch = (await told(client))[1]
        await update(client, (TRANSACTION_VERSION, 1), version=version, validate_only=bool(version), **fields)
        if version:
            assert await level_of(client) == 2
            await update(client, (TRANSACTION_VERSION, 1), version=version, **fields)
        assert await level_of(client) == 1
        assert (await told(client))[1] == epoch + 1
        # Again: it is there already.
        answer = await update(client, (TRANSACTION_VERSION, 1), version=version, **fields)
        assert not answer.error_code
        assert not any(each.error_code for each in answer.results)
        await update(client, (TRANSACTION_VERSION, 2), version=version)
        assert await level_of(client) == 2

    with_broker(tmp_path, test)


REFUSED = {
    "lower by an upgrade": (TRANSACTION_VERSION, 1, {}, "raftka cluster features downgrade"),
    "to level 0": (TRANSACTION_VERSION, 0, {"upgrade_type": SAFE_DOWNGRADE}, "never lowered to 0"),
    "to level -1": (TRANSACTION_VERSION, -1, {"upgrade_type": UNSAFE_DOWNGRADE}, "never lowered to 0"),
    "higher by a downgrade": (TRANSACTION_VERSION, 3, {"upgrade_type": SAFE_DOWNGRADE}, "is not lowered to level 3"),
    "another feature": (MEMBERSHIP, 0, {"upgrade_type": SAFE_DOWNGRADE}, "never lowered"),
    "an unknown type": (TRANSACTION_VERSION, 1, {"upgrade_type": 9}, "never lowered"),
    "beyond the brokers": (TRANSACTION_VERSION, 3, {}, "broker 1 has 2"),
}


@pytest.mark.parametrize("refused", REFUSED)
def test_what_does_not_lower_or_raise_the_feature_is_refused_with_the_reason(tmp_path, refused):
    name, level, fields, says = REFUSED[refused]

    async def test(broker, client):
        before = await told(client)
        answer = await update(client, (name, level), **fields)
        assert answer.results[0].error_code == ErrorCode.FEATURE_UPDATE_FAILED
        assert says in answer.results[0].error_message
        assert await told(client) == before

    with_broker(tmp_path, test)


def test_a_feature_whose_levels_nobody_may_lower_stays(tmp_path):
    async def test(broker, client):
        answer = await update(client, ("x.two", 2), upgrade_type=SAFE_DOWNGRADE)
        assert "x.two is at level 3, and a level is never lowered" in answer.results[0].error_message

    with_broker(tmp_path, test, features={"x.two": LevelRange(1, 3)})


def test_the_command_line_lowers_the_feature(tmp_path):
    async def test(broker, client):
        async def typed(*words, code=0):
            address = ("--brokers", f"127.0.0.1:{broker.port}")
            done = await asyncio.to_thread(raftka, "cluster", "features", *words, *address, code=code)
            return done.stdout + done.stderr

        lower = ("downgrade", f"{TRANSACTION_VERSION}=1")
        assert "accepted; nothing is changed" in await typed(*lower, "--dry-run")
        assert await level_of(client) == 2
        assert await typed(*lower) == "transaction.version at level 1\n"
        assert await level_of(client) == 1
        said = await typed("downgrade", f"{MEMBERSHIP}=1", f"{TRANSACTION_VERSION}=2", code=1)
        assert "is not lowered to level 2" in said
        assert "'x' is not FEATURE=LEVEL" in await typed("downgrade", "x", code=64)
        assert await typed("upgrade") == "transaction.version at level 2\n"

    with_broker(tmp_path, test)
