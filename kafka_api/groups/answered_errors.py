"""Which errors each key of the group protocol is answered with, at any level of its response.

docs/compatibility.md shows them. A test brings each of them about, and no other is found in any answer or in the code.
GROUP_AUTHORIZATION_FAILED is Kafka's with ACLs, which are not built.
"""

from collections.abc import Mapping

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode

# Somebody else keeps the group, or nobody can say at the moment: clients ask again.
_ELSEWHERE = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
_NOT_YET = _ELSEWHERE | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
# Whoever asks is not the member that it takes itself for.
_NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
_NOT_OF_THIS_GENERATION = _NOT_A_MEMBER | {ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}

ANSWERED_ERRORS: Mapping[ApiKey, frozenset[ErrorCode]] = {
    ApiKey.OFFSET_COMMIT: _NOT_YET
    | _NOT_OF_THIS_GENERATION
    | {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    },
    ApiKey.OFFSET_FETCH: _NOT_YET | {ErrorCode.UNSTABLE_OFFSET_COMMIT},
    # From level 1 of `transaction.version` on.
    ApiKey.TXN_OFFSET_COMMIT: _NOT_YET
    | _NOT_A_MEMBER
    | {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    },
    ApiKey.FIND_COORDINATOR: frozenset(
        {
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ErrorCode.INVALID_REQUEST,
            # Below level 1 of `transaction.version`.
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        }
    ),
    ApiKey.JOIN_GROUP: _NOT_YET
    | _NOT_A_MEMBER
    | {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    },
    ApiKey.HEARTBEAT: _ELSEWHERE | _NOT_OF_THIS_GENERATION | {ErrorCode.INVALID_GROUP_ID},
    ApiKey.LEAVE_GROUP: _NOT_YET | _NOT_A_MEMBER | {ErrorCode.INVALID_GROUP_ID},
    ApiKey.SYNC_GROUP: _ELSEWHERE
    | _NOT_OF_THIS_GENERATION
    | {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.INVALID_GROUP_ID},
    ApiKey.DESCRIBE_GROUPS: _NOT_YET | {ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.LIST_GROUPS: _NOT_YET,
    ApiKey.DELETE_GROUPS: _NOT_YET | {ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND},
    ApiKey.OFFSET_DELETE: _NOT_YET
    | {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    },
}
