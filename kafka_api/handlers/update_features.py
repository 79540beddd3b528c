"""UpdateFeatures (57): the levels of features that the cluster uses (KIP-584, RFC 0018)."""

from collections import Counter
from enum import IntEnum

from cluster.admin_requests import UpdateFeatureRequest as AdminRequest
from cluster.errors import ClusterError
from kafka_api.error_mapping import error_code
from kafka_api.handlers.topic_admin import request_deadline, seconds_left
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafka_api.request_context import RequestContext

_Update = UpdateFeaturesRequest.FeatureUpdateKey
_Result = UpdateFeaturesResponse.UpdatableFeatureResult
# From here on there is one error for the whole request, and nothing is changed if one feature cannot be.
_FIRST_VERSION_WITHOUT_RESULTS = 2


class _UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


async def handle_update_features(
    context: RequestContext, version: int, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Check all updates at raft0's leader, then make them, one after the other."""
    names = Counter(update.feature for update in request.feature_updates)
    if not names or max(names.values()) > 1:
        words = "a feature is named twice" if names else "no feature is named"
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=words, results=[])
    deadline = request_deadline(request.timeout_ms)
    results = [await _update(context, each, deadline, validate_only=True) for each in request.feature_updates]
    refused = next((each for each in results if each.error_code), None)
    is_whole = version >= _FIRST_VERSION_WITHOUT_RESULTS
    if not request.validate_only and (refused is None or not is_whole):
        for place, (update, result) in enumerate(zip(request.feature_updates, results, strict=True)):
            if not result.error_code:
                results[place] = await _update(context, update, deadline, validate_only=False)
        refused = next((each for each in results if each.error_code), None)
    if is_whole:
        if refused is None:
            return UpdateFeaturesResponse(error_message=None, results=[])
        return UpdateFeaturesResponse(
            error_code=refused.error_code, error_message=f"{refused.feature}: {refused.error_message}", results=[]
        )
    return UpdateFeaturesResponse(error_message=None, results=results)


async def _update(context: RequestContext, update: _Update, deadline: float, *, validate_only: bool) -> _Result:
    if update.allow_downgrade or update.upgrade_type != _UpgradeType.UPGRADE or update.max_version_level < 1:
        words = "a level is never lowered: what was written at it would be met below it"
        return _Result(feature=update.feature, error_code=ErrorCode.FEATURE_UPDATE_FAILED, error_message=words)
    asked = AdminRequest(update.feature, update.max_version_level, validate_only, seconds_left(deadline))
    try:
        await context.node.admin.update_feature(asked)
    except ClusterError as error:
        return _Result(feature=update.feature, error_code=error_code(error), error_message=str(error))
    return _Result(feature=update.feature, error_message=None)
