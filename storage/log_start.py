"""Where a log begins: a fact that a replicated LOG_START entry moves and that `snapshot` files keep (RFC 0008)."""

import msgspec

from model.ids import Index, Offset, Term
from storage.entry import Buffer
from storage.errors import CorruptEntryError, UnknownFormatError

FORMAT_VERSION = 1


class LogStart(msgspec.Struct, frozen=True, array_like=True):
    """The start of a log. Invariant: index >= 1, 0 <= base_offset <= offset, prev_term is 0 only at index 1.

    Attributes:
        index: The first entry that can be read.
        base_offset: Offset of the first record of entry `index`: the next offset of a log that is empty there.
        offset: The first offset that can be read; it may lie inside the entry.
        prev_term: Term of the entry before `index`; 0 for index 1.
    """

    index: Index
    base_offset: Offset
    offset: Offset
    prev_term: Term

    @property
    def prev_index(self) -> Index:
        """The entry before the first one: the end of a log that is empty here."""
        return Index(self.index - 1)

    def flaw(self) -> str | None:
        """Return what makes it impossible; None if nothing does."""
        if self.index < 1 or not 0 <= self.base_offset <= self.offset:
            return f"log start at entry {self.index}, offsets {self.base_offset} and {self.offset}"
        if self.prev_term < 0 or (self.prev_term == 0) != (self.index == 1):
            return f"log start at entry {self.index} behind term {self.prev_term}"
        return None


ORIGIN = LogStart(Index(1), Offset(0), Offset(0), Term(0))


class _Payload(msgspec.Struct, frozen=True, array_like=True):
    format_version: int
    start: LogStart


# As in `index_file`.
_fields_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_version_decoder = msgspec.msgpack.Decoder(int)
_decoder = msgspec.msgpack.Decoder(_Payload)


def encode_log_start(start: LogStart) -> bytes:
    """Return the payload of a LOG_START entry."""
    return msgspec.msgpack.encode(_Payload(FORMAT_VERSION, start))


def decode_log_start(payload: Buffer) -> LogStart:
    """Read the payload of a LOG_START entry.

    Raises:
        UnknownFormatError: A newer version wrote it.
        CorruptEntryError: It is none, or says what cannot be.
    """
    try:
        fields = _fields_decoder.decode(payload)
        version = _version_decoder.decode(fields[0]) if fields else 0
        if version != FORMAT_VERSION:
            raise UnknownFormatError(f"a log start of format {version}; this version reads {FORMAT_VERSION}")
        start = _decoder.decode(payload).start
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise CorruptEntryError(f"the payload is no log start: {error}") from error
    if flaw := start.flaw():
        raise CorruptEntryError(f"impossible {flaw}")
    return start
