"""AlterConfigs (33) and IncrementalAlterConfigs (44): what is set on topics and brokers is replaced, or changed by key.

Any broker takes both for every broker, and for all at once (RFC 0018). The levels of loggers are each broker's own.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

from cluster.admin_messages import AdminReply, AlterBrokerConfigsRequest, AlterTopicConfigsRequest
from cluster.errors import ClusterError
from cluster.topic_changes import ConfigChange, ConfigOperation
from kafka_api.error_mapping import error_code
from kafka_api.handlers.broker_loggers import alter_loggers
from kafka_api.handlers.config_resources import (
    ResourceRefusedError,
    ResourceType,
    broker_to_alter,
    find_config_topic,
    unknown_type,
)
from kafka_api.handlers.in_steps import in_steps
from kafka_api.handlers.topic_admin import request_deadline, seconds_left
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafka_api.request_context import RequestContext
from model.ids import Index

# The requests carry no timeout of their own.
_TIMEOUT_MS = 30_000
_SHOWN_CHARACTERS_MAX = 100
_OPERATIONS = frozenset(int(operation) for operation in ConfigOperation)

_Refusal = tuple[ErrorCode, str | None]


async def handle_alter_configs(context: RequestContext, _: int, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all that is set on each resource."""
    asked = []
    for each in request.resources:
        changes = [ConfigChange(config.name, ConfigOperation.SET, config.value) for config in each.configs]
        asked.append((each.resource_type, each.resource_name, changes))
    outcomes = await _alter_each(context, asked, validate_only=request.validate_only, replaces_all=True)
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource_type, resource_name=name
            )
            for (resource_type, name, _), (code, message) in zip(asked, outcomes, strict=True)
        ]
    )


async def handle_incremental_alter_configs(
    context: RequestContext, _: int, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change the named keys of each resource."""
    asked = []
    for each in request.resources:
        changes = [ConfigChange(config.name, config.config_operation, config.value) for config in each.configs]
        asked.append((each.resource_type, each.resource_name, changes))
    outcomes = await _alter_each(context, asked, validate_only=request.validate_only, replaces_all=False)
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=code, error_message=message, resource_type=resource_type, resource_name=name
            )
            for (resource_type, name, _), (code, message) in zip(asked, outcomes, strict=True)
        ]
    )


async def _alter_each(
    context: RequestContext,
    asked: Sequence[tuple[int, str, list[ConfigChange]]],
    *,
    validate_only: bool,
    replaces_all: bool,
) -> list[_Refusal]:
    times = Counter((resource_type, name) for resource_type, name, _ in asked)
    deadline = request_deadline(_TIMEOUT_MS)
    outcomes: list[_Refusal] = []
    async for resource_type, name, changes in in_steps(asked):
        try:
            if times[resource_type, name] > 1:
                raise ResourceRefusedError(ErrorCode.INVALID_REQUEST, "named twice in one request")
            _check_resource(context, resource_type, name)
            _check_changes(changes)
            if resource_type == ResourceType.BROKER_LOGGER:
                alter_loggers(context, name, changes, validate_only=validate_only, replaces_all=replaces_all)
            elif resource_type == ResourceType.BROKER:
                node = broker_to_alter(context, name)
                on_broker = AlterBrokerConfigsRequest(
                    node, changes, replaces_all, validate_only, seconds_left(deadline)
                )
                await _applied(context, await context.node.admin.alter_broker_configs(on_broker), deadline)
            else:
                on_topic = AlterTopicConfigsRequest(name, changes, replaces_all, validate_only, seconds_left(deadline))
                await _applied(context, await context.node.admin.alter_topic_configs(on_topic), deadline)
        except ResourceRefusedError as refused:
            outcomes.append((refused.code, str(refused)))
        except ClusterError as error:
            outcomes.append((error_code(error), str(error)))
        else:
            outcomes.append((ErrorCode.NONE, None))
    return outcomes


def _check_resource(context: RequestContext, resource_type: int, name: str) -> None:
    match resource_type:
        case ResourceType.TOPIC:
            find_config_topic(context, name)
        case ResourceType.BROKER:
            broker_to_alter(context, name)
        case ResourceType.BROKER_LOGGER:
            pass  # `alter_loggers` checks it.
        case _:
            raise unknown_type(resource_type)


def _check_changes(changes: Sequence[ConfigChange]) -> None:
    """Refuse, with INVALID_REQUEST as Kafka does, what no configuration could be meant by."""
    keys = Counter(change.key for change in changes)
    for change in changes:
        shown = change.key[:_SHOWN_CHARACTERS_MAX]
        if keys[change.key] > 1:
            raise ResourceRefusedError(ErrorCode.INVALID_REQUEST, f"{shown}: named twice")
        if change.operation not in _OPERATIONS:
            raise ResourceRefusedError(ErrorCode.INVALID_REQUEST, f"{shown}: unknown operation {change.operation}")
        if change.value is None and change.operation != ConfigOperation.DELETE:
            raise ResourceRefusedError(ErrorCode.INVALID_REQUEST, f"{shown}: a value is missing")


async def _applied(context: RequestContext, reply: AdminReply, deadline: float) -> None:
    """Wait until this broker knows what raft0's leader has changed: its next answer may be a description."""
    try:
        async with asyncio.timeout_at(deadline):
            await context.node.controller.wait_applied(Index(reply.applied_index))
    except TimeoutError:
        pass  # The change is made all the same.
