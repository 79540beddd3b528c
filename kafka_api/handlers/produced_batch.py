"""What a batch must be to be appended: the checks of Produce that look at nothing but the batch and its topic."""

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.refused_batch import RefusedBatchError
from model.record_batch import (
    CODECS,
    BatchChecksumError,
    BatchHeader,
    MalformedBatchError,
    check_batch,
)
from model.topic_config import TopicConfig

_ZSTD = CODECS.index("zstd")
_FIRST_VERSION_WITH_ZSTD = 7
_NO_PRODUCER_ID = -1
_NO_TIMESTAMP = -1

_WITHOUT_ID = "a transactional batch needs the transactional.id of its producer in the request"


def check_produced(
    batch: bytearray, version: int, max_message_bytes: int, *, allows_transactions: bool = False
) -> BatchHeader:
    """Return the header of a batch that may be appended.

    Raises:
        RefusedBatchError: With Kafka's code for what is wrong.
    """
    if len(batch) > max_message_bytes:
        raise RefusedBatchError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(batch)} bytes, max.message.bytes is {max_message_bytes}"
        )
    try:
        header = check_batch(batch)
    except BatchChecksumError as error:
        raise RefusedBatchError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    except MalformedBatchError as error:
        raise RefusedBatchError(ErrorCode.INVALID_RECORD, str(error)) from error
    if header.is_control:
        raise RefusedBatchError(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if header.is_transactional and not allows_transactions:
        # As from Kafka. It ends a producer in every client (RFC 0007).
        raise RefusedBatchError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, _WITHOUT_ID)
    if header.producer_id != _NO_PRODUCER_ID or header.is_transactional:
        _check_producer(header)
    if header.uses_log_append_time:
        raise RefusedBatchError(ErrorCode.INVALID_TIMESTAMP, "only the broker may write the time of the append")
    if header.codec >= len(CODECS) or (header.codec == _ZSTD and version < _FIRST_VERSION_WITH_ZSTD):
        raise RefusedBatchError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {header.codec} is not allowed in version {version}"
        )
    return header


def check_timestamps(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    """Check the producer's timestamps by the header: the first record's, and the largest.

    Raises:
        RefusedBatchError: Further in the past or the future than the topic allows.
    """
    oldest = now_ms - config.message_timestamp_before_max_ms
    newest = now_ms + config.message_timestamp_after_max_ms
    for timestamp in (header.base_timestamp, header.max_timestamp):
        # A record without a timestamp is taken, as in Kafka.
        if timestamp != _NO_TIMESTAMP and not oldest <= timestamp <= newest:
            bound = "before" if timestamp < oldest else "after"
            raise RefusedBatchError(
                ErrorCode.INVALID_TIMESTAMP,
                f"timestamp {timestamp}: the broker's clock is at {now_ms}, see message.timestamp.{bound}.max.ms",
            )


def _check_producer(header: BatchHeader) -> None:
    if header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0:
        raise RefusedBatchError(
            ErrorCode.INVALID_RECORD,
            f"producer id {header.producer_id} with epoch {header.producer_epoch} and sequence {header.base_sequence}:"
            " none of them may be negative",
        )
