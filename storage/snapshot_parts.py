"""Format 2 of the file `snapshot`: a header that can grow, and the state in parts, each with its own checksum.

    0  crc          u32   CRC32C of everything behind it: the header and all parts, in order
    4  format       u8    2
    5  header size  u32
    9  header crc   u32   CRC32C of bytes [4, 9) and of the header
   13  header             msgpack map, see `SnapshotHeader`; what holds nothing is left out
    then each part
    0  number       u32   from 1 on
    4  size         u32   in [1, PART_BYTES_MAX]
    8  crc          u32   CRC32C of the header's crc, the number, the size and the bytes
   12  bytes

The file's checksum stands first, as in format 1: so a version that knows only format 1 finds the file whole and refuses
it by its format, instead of taking it for damage. It is the only one that finds a file whose parts are all sound and
which is not the one that was written. The checksum of a part names what is damaged, without the rest of the file.
"""

from collections.abc import Callable, Iterator
from typing import Annotated

import crc32c
import msgspec

from model.ids import Index, Term
from storage.errors import CorruptLogError, UnknownFormatError
from storage.log_start import LogStart

FORMAT_WITH_PARTS = 2
PART_BYTES_MAX = 1024 * 1024
CRC_BYTES = 4
FORMAT_POSITION = CRC_BYTES
# What of a file tells that it has this format.
MARK_BYTES = FORMAT_POSITION + 1

_SIZE_END = MARK_BYTES + 4
_HEADER_POSITION = _SIZE_END + CRC_BYTES
_PART_HEAD_BYTES = 12

Buffer = bytes | memoryview
# Returns so many bytes of the file from a position on; they lie within it.
Read = Callable[[int, int], bytes]

_Count = Annotated[int, msgspec.Meta(ge=0)]


class SnapshotHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a snapshot of format 2 says besides its state.

    A field that is added later has a default that says what its absence means, and is left out while it has it. A
    version that does not know the field refuses a file that has it, by the field's name.

    Attributes:
        start, applied_index, applied_term, configuration: Those of the snapshot.
        parts: How many follow.
        state_bytes: The size of the state, which is that of all parts together.
    """

    start: LogStart
    applied_index: Index
    applied_term: Term
    parts: _Count
    state_bytes: _Count
    configuration: bytes = b""


# As in `index_file`.
_fields_decoder = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
_header_decoder = msgspec.msgpack.Decoder(SnapshotHeader)


def count_parts(state_bytes: int, part_bytes: int = PART_BYTES_MAX) -> int:
    """Return how many parts a state is written in."""
    return -(-state_bytes // part_bytes)


def encoded(header: SnapshotHeader, state: bytes, part_bytes: int = PART_BYTES_MAX) -> Iterator[list[Buffer]]:
    """Yield what the file's checksum covers, piece by piece: the header, then each part. The state is not copied."""
    assert 1 <= part_bytes <= PART_BYTES_MAX
    assert (header.parts, header.state_bytes) == (count_parts(len(state), part_bytes), len(state))
    content = msgspec.msgpack.encode(header)
    mark = bytes([FORMAT_WITH_PARTS]) + len(content).to_bytes(4, "big")
    seed = crc32c.crc32c(content, crc32c.crc32c(mark)).to_bytes(CRC_BYTES, "big")
    yield [mark + seed + content]
    view = memoryview(state)
    for number in range(1, header.parts + 1):
        part = view[(number - 1) * part_bytes : number * part_bytes]
        head = number.to_bytes(4, "big") + len(part).to_bytes(4, "big")
        crc = crc32c.crc32c(part, crc32c.crc32c(seed + head))
        yield [head + crc.to_bytes(CRC_BYTES, "big"), part]


def covered_checksum(piece: list[Buffer], checksum: int) -> int:
    """Return the checksum of what came before and of `piece`."""
    for buffer in piece:
        checksum = crc32c.crc32c(buffer, checksum)
    return checksum


def is_in_parts(first: bytes) -> bool:
    """Whether a file that begins like this says that it has this format."""
    return len(first) > FORMAT_POSITION and first[FORMAT_POSITION] == FORMAT_WITH_PARTS


def read_parts(read: Read, size: int, path: str, state_bytes_max: int) -> tuple[SnapshotHeader, bytes]:
    """Read a file of this format of `size` bytes, part by part, and check it; `path` is for messages.

    Raises:
        UnknownFormatError: Its header is whole, and has a field that this version does not know, or a larger state.
        CorruptLogError: It is damaged; the error names the header or the part.
    """
    reader = _Reader(read, size, path)
    header = reader.header()
    if header.state_bytes > state_bytes_max:
        raise UnknownFormatError(
            f"{path} holds a state of {header.state_bytes} bytes, this version reads at most {state_bytes_max}"
        )
    parts: list[bytes] = []
    left = header.state_bytes
    for number in range(1, header.parts + 1):
        parts.append(reader.part(number, header.parts, left))
        left -= len(parts[-1])
    reader.end(left)
    return header, b"".join(parts)


class _Reader:
    """Reads one file from its beginning to its end.

    Attributes:
        position: What was read so far.
        checksum: Of what was read behind the first field.
    """

    def __init__(self, read: Read, size: int, path: str) -> None:
        self._read = read
        self._size = size
        self._path = path
        self._seed = b""
        self._said = 0
        self.position = 0
        self.checksum = 0

    def header(self) -> SnapshotHeader:
        """Read what stands before the parts."""
        self._said = int.from_bytes(self._take(CRC_BYTES, "header"), "big")
        # It does not cover itself.
        self.checksum = 0
        mark = self._take(_SIZE_END - FORMAT_POSITION, "header")
        self._seed = self._take(CRC_BYTES, "header")
        content = self._take(int.from_bytes(mark[1:], "big"), "header")
        if crc32c.crc32c(content, crc32c.crc32c(mark)) != int.from_bytes(self._seed, "big"):
            raise self._damaged("header: wrong checksum")
        try:
            fields = _fields_decoder.decode(content)
            unknown = sorted(fields.keys() - set(SnapshotHeader.__struct_fields__))
            if unknown:
                raise UnknownFormatError(
                    f"{self._path} has the header field {unknown[0]!r}, which this version does not know"
                )
            return _header_decoder.decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(f"header: {error}") from error

    def part(self, number: int, parts: int, left: int) -> bytes:
        """Read a part, of which `left` bytes of the state are the most."""
        what = f"part {number} of {parts}"
        head = self._take(_PART_HEAD_BYTES, what)
        found, size = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:8], "big")
        if not 1 <= size <= PART_BYTES_MAX:
            raise self._damaged(f"{what}: {size} bytes")
        part = self._take(size, what)
        if crc32c.crc32c(part, crc32c.crc32c(self._seed + head[:8])) != int.from_bytes(head[8:], "big"):
            raise self._damaged(f"{what}: wrong checksum")
        if found != number:
            raise self._damaged(f"{what}: part {found} stands there")
        if size > left:
            raise self._damaged(f"{what}: {size} bytes, {left} are left of the state")
        return part

    def end(self, left: int) -> None:
        """Check that nothing is missing and nothing more is there."""
        if left:
            raise self._damaged(f"its parts lack {left} bytes of the state")
        if self.position != self._size:
            raise self._damaged(f"{self._size - self.position} bytes behind the last part")
        if self.checksum != self._said:
            raise self._damaged("wrong checksum of the whole")

    def _take(self, size: int, what: str) -> bytes:
        left = self._size - self.position
        found = self._read(size, self.position) if 0 < size <= left else b""
        if len(found) != size:
            raise self._damaged(f"{what}: {'missing' if left == 0 else 'cut short'}")
        self.position += size
        self.checksum = crc32c.crc32c(found, self.checksum)
        return found

    def _damaged(self, flaw: str) -> CorruptLogError:
        return CorruptLogError(f"{self._path} is damaged: {flaw}", self._path)
