"""Why a batch is not taken."""

from collections.abc import Sequence

from kafka_api.protocol.error_codes import ErrorCode


class RefusedBatchError(Exception):
    """A batch the broker does not take; carries the code and the words for the client.

    Attributes:
        records: The records that are to blame, by their position in the batch; empty: the batch as such is.
    """

    def __init__(self, code: ErrorCode, message: str, records: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.records = records
