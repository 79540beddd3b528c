"""ListConfigResources (74, KIP-1142): the names of what has a configuration; in version 0 of client metrics only."""

from kafka_api.handlers.config_resources import ResourceType
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ListConfigResourcesRequest, ListConfigResourcesResponse
from kafka_api.request_context import RequestContext

_Resource = ListConfigResourcesResponse.ConfigResource

# Kinds of Kafka's of which there are none here: client metrics, groups.
_EMPTY_TYPES = frozenset({16, 32})
_CLIENT_METRICS = 16


async def handle_list_config_resources(
    context: RequestContext, version: int, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List those of the types asked for; none named: of all."""
    asked = frozenset(request.resource_types if version > 0 else [_CLIENT_METRICS])
    if asked - _EMPTY_TYPES - frozenset(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=[])
    controller = context.node.controller
    brokers = [str(broker.node_id) for broker in controller.members.all()]
    names = {
        ResourceType.TOPIC: [topic.name for topic in controller.topics.all()],
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
    }
    return ListConfigResourcesResponse(
        config_resources=[
            _Resource(resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if not asked or kind in asked
            for name in found
        ]
    )
