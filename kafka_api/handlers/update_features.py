"""UpdateFeatures (57): the levels of features that the cluster uses (KIP-584, RFC 0018)."""

from collections import Counter

from cluster.admin_messages import UpdateFeatureRequest as AdminRequest
from cluster.errors import ClusterError
from kafka_api.error_mapping import error_code
from kafka_api.handlers.topic_admin import request_deadline, seconds_left
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from kafka_api.request_context import RequestContext

_Update = UpdateFeaturesRequest.FeatureUpdateKey
_Result = UpdateFeaturesResponse.UpdatableFeatureResult

# A level is lowered safely, or unsafely where something would be lost. Nothing is lost by those that may be lowered.
_UPGRADE, _DOWNGRADES = 1, (2, 3)
# From here on there is one error for the whole request, and nothing is changed if one feature cannot be.
_FIRST_VERSION_WITHOUT_RESULTS = 2


async def handle_update_features(
    context: RequestContext, version: int, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse:
    """Make the updates at raft0's leader, one after the other; those of a whole request are all checked first."""
    names = Counter(update.feature for update in request.feature_updates)
    if not names or max(names.values()) > 1:
        words = "a feature is named twice" if names else "no feature is named"
        return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=words, results=[])
    deadline = request_deadline(request.timeout_ms)
    is_whole = version >= _FIRST_VERSION_WITHOUT_RESULTS
    is_checked = is_whole or request.validate_only
    results = [await _update(context, each, deadline, validate_only=is_checked) for each in request.feature_updates]
    if is_whole and not request.validate_only and not any(each.error_code for each in results):
        results = [await _update(context, each, deadline, validate_only=False) for each in request.feature_updates]
    if not is_whole:
        return UpdateFeaturesResponse(error_message=None, results=results)
    refused = next((each for each in results if each.error_code), None)
    if refused is None:
        return UpdateFeaturesResponse(error_message=None, results=[])
    words = f"{refused.feature}: {refused.error_message}"
    return UpdateFeaturesResponse(error_code=refused.error_code, error_message=words, results=[])


async def _update(context: RequestContext, update: _Update, deadline: float, *, validate_only: bool) -> _Result:
    # Until version 1 there is only a word that allows it.
    is_lowering = update.allow_downgrade or update.upgrade_type in _DOWNGRADES
    if update.max_version_level < 1 or not (is_lowering or update.upgrade_type == _UPGRADE):
        words = "a level is never lowered to 0: what was written above it would be met"
        return _Result(feature=update.feature, error_code=ErrorCode.FEATURE_UPDATE_FAILED, error_message=words)
    level, timeout = update.max_version_level, seconds_left(deadline)
    asked = AdminRequest(update.feature, level, validate_only, timeout, is_lowering)
    try:
        await context.node.admin.update_feature(asked)
    except ClusterError as error:
        return _Result(feature=update.feature, error_code=error_code(error), error_message=str(error))
    return _Result(feature=update.feature, error_message=None)
