"""DescribeConfigs (32): what is set on topics, brokers and their loggers, what is in force, and where it comes from."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from kafka_api.described_configs import DescribedConfig, configs_of
from kafka_api.handlers.broker_loggers import describe_loggers
from kafka_api.handlers.config_resources import (
    ResourceRefusedError,
    ResourceType,
    find_config_topic,
    has_nothing_set,
    is_this_broker,
    unknown_type,
)
from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeConfigsRequest, DescribeConfigsResponse
from kafka_api.request_context import RequestContext
from model.features import MEMBERSHIP, OPTIONS_LEVEL

_Resource = DescribeConfigsRequest.DescribeConfigsResource
_Result = DescribeConfigsResponse.DescribeConfigsResult
_Config = DescribeConfigsResponse.DescribeConfigsResourceResult
_Synonym = DescribeConfigsResponse.DescribeConfigsSynonym


async def handle_describe_configs(
    context: RequestContext, _: int, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Answer from this broker's own tables and options; a broker describes only itself."""
    results = []
    seen: set[tuple[int, str]] = set()
    async for resource in in_steps(request.resources):
        result = _Result(resource_type=resource.resource_type, resource_name=resource.resource_name, configs=[])
        results.append(result)
        try:
            if (resource.resource_type, resource.resource_name) in seen:
                # A small request must not have an answer of any size.
                raise ResourceRefusedError(ErrorCode.INVALID_REQUEST, "named twice in one request")
            seen.add((resource.resource_type, resource.resource_name))
            found = list(_described(context, resource))
        except ResourceRefusedError as refused:
            result.error_code, result.error_message = refused.code, str(refused)
            continue
        result.configs = [_told(each, request) for each in _chosen(found, resource.configuration_keys)]
    return DescribeConfigsResponse(results=results)


def _described(context: RequestContext, resource: _Resource) -> Iterable[DescribedConfig]:
    match resource.resource_type:
        case ResourceType.TOPIC:
            topic = find_config_topic(context, resource.resource_name)
            return configs_of(topic, context.node.controller.topics.defaults, context.options.broker_configs)
        case ResourceType.BROKER:
            return _of_broker(context, resource.resource_name)
        case ResourceType.BROKER_LOGGER:
            return describe_loggers(context, resource.resource_name)
        case kind if has_nothing_set(kind, resource.resource_name):
            return ()
        case _:
            raise unknown_type(resource.resource_type)


def _of_broker(context: RequestContext, name: str) -> Iterable[DescribedConfig]:
    """Return this broker's configuration or, for the empty name, as Kafka does, what is set for all brokers."""
    if not is_this_broker(context, name):
        return context.options.default_broker_configs
    if context.node.controller.features.level(MEMBERSHIP) < OPTIONS_LEVEL:
        # AlterConfigs would be refused.
        return [replace(each, is_read_only=True) for each in context.options.broker_configs]
    return context.options.broker_configs


def _chosen(found: Iterable[DescribedConfig], keys: Collection[str] | None) -> list[DescribedConfig]:
    # As in Kafka, no key named means all of them.
    wanted = frozenset(keys or ())
    return sorted((each for each in found if not wanted or each.key in wanted), key=lambda each: each.key)


def _told(config: DescribedConfig, request: DescribeConfigsRequest) -> _Config:
    synonyms = config.synonyms if request.include_synonyms else ()
    return _Config(
        name=config.key,
        value=config.value,
        read_only=config.is_read_only,
        config_source=config.source,
        is_sensitive=False,
        synonyms=[_Synonym(name=each.key, value=each.value, source=each.source) for each in synonyms],
        config_type=config.kind,
        documentation=config.doc if request.include_documentation else None,
    )
