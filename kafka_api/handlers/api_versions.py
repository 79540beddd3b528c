"""ApiVersions (18): which keys and versions this broker serves (KIP-511)."""

from collections.abc import Mapping

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import ApiVersionsRequest, ApiVersionsResponse


def api_versions_response(
    served: Mapping[int, tuple[int, int]], request: ApiVersionsRequest | None
) -> ApiVersionsResponse:
    """Return what is served. `request` None: its version is not; the answer is then sent in the v0 format."""
    error = ErrorCode.NONE if request is not None else ErrorCode.UNSUPPORTED_VERSION
    return ApiVersionsResponse(
        error_code=error,
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(served.items())
        ],
    )
