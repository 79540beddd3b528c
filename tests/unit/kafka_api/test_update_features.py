"""UpdateFeatures and what ApiVersions tells of features, on the wire."""

import asyncio
import json
import re

import pytest
from wire_client import broker_in

import cluster.founding
import cluster.node_options
from cluster.founding_words import found
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ApiVersionsRequest, UpdateFeaturesRequest
from model.features import LevelRange
from tests.process.command_line import raftka
from tests.unit.cluster.cluster_nodes import run

OFFERED = {"x.one": LevelRange(0, 2), "x.two": LevelRange(1, 3), "x.none": LevelRange(0, 0)}


@pytest.fixture(autouse=True)
def offered(monkeypatch):
    """What brokers of these tests offer; their cluster was founded by a version without features."""
    monkeypatch.setattr(cluster.node_options, "OFFERED", OFFERED)
    monkeypatch.setattr(cluster.founding, "found", lambda members, _: found(members))


def with_broker(path, test):
    async def whole():
        async with broker_in(path) as broker:
            await test(broker, await broker.client())

    run(whole)


async def update(client, *levels, version=1, validate_only=False, **fields):
    """Ask for (feature, level) pairs; return the response."""
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, **fields)
        for name, level in levels
    ]
    request = UpdateFeaturesRequest(timeout_ms=5000, feature_updates=updates, validate_only=validate_only)
    return await client.call(ApiKey.UPDATE_FEATURES, version, request)


async def told(client, version=4):
    """What ApiVersions says: supported ranges, epoch, levels."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = await client.call(ApiKey.API_VERSIONS, version, request)
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert all(each.min_version_level == each.max_version_level for each in answer.finalized_features)
    return supported, answer.finalized_features_epoch, levels


def test_a_level_is_raised_and_told(tmp_path):
    async def test(_, client):
        assert await told(client) == ({"x.one": (0, 2), "x.two": (1, 3)}, -1, {})
        answer = await update(client, ("x.one", 1), ("x.two", 3))
        assert (answer.error_code, [(each.feature, each.error_code) for each in answer.results]) == (
            0,
            [("x.one", 0), ("x.two", 0)],
        )
        assert await told(client) == ({"x.one": (0, 2), "x.two": (1, 3)}, 2, {"x.one": 1, "x.two": 3})

    with_broker(tmp_path, test)


def test_version_3_leaves_out_features_whose_lowest_level_is_0(tmp_path):
    async def test(_, client):
        await update(client, ("x.one", 1))
        assert await told(client, version=3) == ({"x.two": (1, 3)}, 1, {"x.one": 1})

    with_broker(tmp_path, test)


@pytest.mark.parametrize("version", [0, 1])
def test_each_feature_has_its_own_result(tmp_path, version):
    async def test(_, client):
        answer = await update(client, ("x.one", 3), ("x.two", 2), ("nowhere", 1), version=version)
        assert answer.error_code == 0
        codes = {each.feature: ErrorCode(each.error_code) for each in answer.results}
        failed = ErrorCode.FEATURE_UPDATE_FAILED
        assert codes == {"x.one": failed, "x.two": ErrorCode.NONE, "nowhere": failed}
        assert "broker 1 has 2" in answer.results[0].error_message
        assert (await told(client))[2] == {"x.two": 2}

    with_broker(tmp_path, test)


def test_from_version_2_on_one_refusal_refuses_the_whole_request(tmp_path):
    async def test(_, client):
        answer = await update(client, ("x.two", 2), ("x.one", 3), version=2)
        assert answer.error_code == ErrorCode.FEATURE_UPDATE_FAILED
        assert answer.error_message.startswith("x.one: x.one cannot be at level 3: broker 1 has 2")
        assert (await told(client))[2] == {}
        answer = await update(client, ("x.two", 2), ("x.one", 2), version=2)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert (await told(client))[2] == {"x.one": 2, "x.two": 2}

    with_broker(tmp_path, test)


@pytest.mark.parametrize("version", [1, 2])
def test_a_dry_run_changes_nothing(tmp_path, version):
    async def test(_, client):
        answer = await update(client, ("x.two", 2), version=version, validate_only=True)
        assert answer.error_code == 0
        assert await told(client) == ({"x.one": (0, 2), "x.two": (1, 3)}, -1, {})

    with_broker(tmp_path, test)


@pytest.mark.parametrize(
    ("level", "fields"),
    [(1, {"upgrade_type": 2}), (1, {"upgrade_type": 3}), (0, {}), (-1, {}), (1, {})],
    ids=["safe downgrade", "unsafe downgrade", "level 0", "level -1", "lower than in force"],
)
def test_a_level_is_never_lowered(tmp_path, level, fields):
    async def test(_, client):
        await update(client, ("x.two", 2))
        answer = await update(client, ("x.two", level), **fields)
        assert answer.results[0].error_code == ErrorCode.FEATURE_UPDATE_FAILED
        assert "never lowered" in answer.results[0].error_message
        assert (await told(client))[2] == {"x.two": 2}

    with_broker(tmp_path, test)


@pytest.mark.parametrize("levels", [(), (("x.two", 2), ("x.two", 2))], ids=["none", "twice"])
def test_no_feature_and_a_repeated_feature_are_refused(tmp_path, levels):
    async def test(_, client):
        answer = await update(client, *levels)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert (await told(client))[2] == {}

    with_broker(tmp_path, test)


def test_the_command_line_shows_levels_and_raises_them(tmp_path):
    async def test(broker, client):
        def typed(*words, code=0):
            done = raftka("cluster", "features", *words, "--brokers", f"127.0.0.1:{broker.port}", code=code)
            return done.stdout + done.stderr

        async def type_(*words, **expected):
            return await asyncio.to_thread(typed, *words, **expected)

        assert re.search(r"x\.one +0 +2 +1: 2", await type_("list"))
        assert "accepted; nothing is changed" in await type_("upgrade", "--dry-run")
        assert (await told(client))[2] == {}
        assert await type_("upgrade", "x.one=1") == "x.one at level 1\n"
        assert "broker 1 has 2" in await type_("upgrade", "x.one=3", code=1)
        assert "'x.one' is not FEATURE=LEVEL" in await type_("upgrade", "x.one", code=64)
        assert "named twice" in await type_("upgrade", "x.one=1", "x.one=2", code=64)
        assert await type_("upgrade") == "x.one at level 2, x.two at level 3\n"
        assert await type_("upgrade") == "every feature is as high as all brokers allow\n"
        rows = json.loads(await type_("list", "-f", "json"))
        assert rows[0] == {"feature": "x.one", "level": 2, "highest": 2, "brokers": {"1": 2}}

    with_broker(tmp_path, test)
