"""The error codes of the Kafka protocol whose meaning decides what became of an operation (docs/history-format.md)."""

NONE = 0
OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
TOPIC_ALREADY_EXISTS = 36
DUPLICATE_SEQUENCE_NUMBER = 46

# Answered before the record is appended: it is certainly not in the log.
NOT_APPENDED = frozenset(
    {
        2,  # CORRUPT_MESSAGE
        UNKNOWN_TOPIC_OR_PARTITION,
        10,  # MESSAGE_TOO_LARGE
        17,  # INVALID_TOPIC_EXCEPTION
        19,  # NOT_ENOUGH_REPLICAS
        21,  # INVALID_REQUIRED_ACKS
        87,  # INVALID_RECORD
    }
)

# An idempotent producer cannot go on with its id.
LOST_TRACK = frozenset(
    {
        45,  # OUT_OF_ORDER_SEQUENCE_NUMBER
        47,  # INVALID_PRODUCER_EPOCH
        49,  # INVALID_PRODUCER_ID_MAPPING
        59,  # UNKNOWN_PRODUCER_ID
    }
)
