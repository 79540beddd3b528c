"""DescribeCluster (60)."""

from kafka_api.handlers.cluster_view import alive_brokers, controller_id
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeClusterRequest, DescribeClusterResponse
from kafka_api.request_context import RequestContext

_BROKERS = 1


async def handle_describe_cluster(
    context: RequestContext, _: int, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Name the cluster and its brokers. The controllers' endpoint (KIP-919) is not offered."""
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="only brokers (endpoint type 1) can be described",
            cluster_id="",
            endpoint_type=request.endpoint_type,
        )
    return DescribeClusterResponse(
        cluster_id=context.node.cluster.cluster_id,
        controller_id=controller_id(context),
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(
                broker_id=broker.node_id, host=broker.kafka_host, port=broker.kafka_port
            )
            for broker in alive_brokers(context)
        ],
    )
