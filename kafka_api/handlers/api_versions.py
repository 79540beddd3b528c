"""ApiVersions (18): which keys and versions this broker serves (KIP-511), and which features (KIP-584)."""

from collections.abc import Iterator, Mapping

from cluster.node import Node
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

_NO_EPOCH = -1
# Older clients refuse a feature whose lowest level is 0 (KIP-1022).
_FIRST_VERSION_WITH_LEVEL_0 = 4


def api_versions_response(
    served: Mapping[int, tuple[int, int]], node: Node, version: int, request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Return what is served. `request` None: its version is not; the answer is then sent in the v0 format."""
    error = ErrorCode.NONE if request is not None else ErrorCode.UNSUPPORTED_VERSION
    features = node.controller.features
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(served.items())
        ],
        supported_features=list(_supported(node, version)),
        finalized_features_epoch=features.epoch or _NO_EPOCH,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.all().items()
        ],
    )


def _supported(node: Node, version: int) -> Iterator[ApiVersionsResponse.SupportedFeatureKey]:
    for name, levels in sorted(node.options.features.items()):
        if levels.highest and (levels.lowest or version >= _FIRST_VERSION_WITH_LEVEL_0):
            yield ApiVersionsResponse.SupportedFeatureKey(
                name=name, min_version=levels.lowest, max_version=levels.highest
            )
