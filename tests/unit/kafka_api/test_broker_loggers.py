"""Loggers of a broker as a resource of configurations (KIP-412)."""

import logging
from collections.abc import Iterator

import pytest
from wire_client import with_client

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from runtime.log_levels import LOGGERS

LOGGER = 8
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    loggers = [logging.getLogger(None if name == "root" else name) for name in LOGGERS]
    before = [(logger, logger.level) for logger in loggers]
    logging.getLogger().setLevel("INFO")
    yield
    for logger, level in before:
        logger.setLevel(level)


async def _levels_of(client, keys=None):
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=LOGGER, resource_name="1", configuration_keys=keys
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    (result,) = (await client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)).results
    assert not result.error_code
    assert not result.error_message
    # 6: dynamic configuration of a logger.
    assert all(
        (each.config_source, each.read_only, bool(each.documentation)) == (6, False, True) for each in result.configs
    )
    return {each.name: (each.value, each.synonyms[0].name) for each in result.configs}


async def _change(client, *changes, name="1", validate_only=False):
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=LOGGER, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = (await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses
    return ErrorCode(result.error_code), result.error_message


def test_levels_are_described_set_and_deleted(tmp_path):
    async def test(_, client):
        assert list(await _levels_of(client)) == sorted(LOGGERS)
        assert await _levels_of(client, ["raft", "nix"]) == {"raft": ("INFO", "root")}
        assert await _change(client, ("raft", SET, "debug"), ("root", SET, "WARN")) == (ErrorCode.NONE, None)
        assert logging.getLogger("raft").isEnabledFor(logging.DEBUG)
        assert await _levels_of(client, ["raft", "rpc"]) == {"raft": ("DEBUG", "raft"), "rpc": ("WARNING", "root")}
        assert await _change(client, ("raft", DELETE, None)) == (ErrorCode.NONE, None)
        assert await _levels_of(client, ["raft"]) == {"raft": ("WARNING", "root")}

    with_client(tmp_path, test)


def test_a_change_is_only_tried_if_asked(tmp_path):
    async def test(_, client):
        assert await _change(client, ("raft", SET, "DEBUG"), validate_only=True) == (ErrorCode.NONE, None)
        assert await _levels_of(client, ["raft"]) == {"raft": ("INFO", "root")}

    with_client(tmp_path, test)


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        (("org.apache.kafka", SET, "INFO"), ErrorCode.INVALID_CONFIG, ", ".join(LOGGERS)),
        (("org.apache.kafka", DELETE, None), ErrorCode.INVALID_CONFIG, ", ".join(LOGGERS)),
        (("raft", SET, "LOUD"), ErrorCode.INVALID_CONFIG, "WARNING (WARN), ERROR"),
        (("raft", SET, ""), ErrorCode.INVALID_CONFIG, "WARNING (WARN), ERROR"),
        (("raft", SET, None), ErrorCode.INVALID_REQUEST, "raft: a value is missing"),
        (("raft", APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "set or deleted"),
        (("raft", SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST, "set or deleted"),
        (("raft", 9, "INFO"), ErrorCode.INVALID_REQUEST, "unknown operation 9"),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST, "root: its level cannot be deleted"),
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing_of_its_request(tmp_path, change, code, named):
    async def test(_, client):
        before = await _levels_of(client)
        refused, message = await _change(client, ("rpc", SET, "DEBUG"), change)
        assert refused == code
        assert named in message
        assert await _levels_of(client) == before

    with_client(tmp_path, test)


def test_a_request_that_replaces_all_does_not_take_loggers_as_in_kafka(tmp_path):
    async def test(_, client):
        given = [AlterConfigsRequest.AlterableConfig(name="raft", value="DEBUG")]
        resource = AlterConfigsRequest.AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=given)
        (result,) = (await client.call(ApiKey.ALTER_CONFIGS, 2, AlterConfigsRequest(resources=[resource]))).responses
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert "use IncrementalAlterConfigs" in result.error_message
        assert await _levels_of(client, ["raft"]) == {"raft": ("INFO", "root")}

    with_client(tmp_path, test)
