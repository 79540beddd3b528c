"""What a member of a group was assigned, from the bytes of Kafka's consumer protocol."""

import struct

Partition = tuple[str, int]


def parse_assignment(data: bytes) -> list[Partition] | None:
    """Return the assigned partitions, in order; None: the bytes are no assignment. Whoever joins a group makes them."""
    if not data:
        return []
    found = []
    try:
        _, topics = struct.unpack_from(">hi", data)
        position = 6
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, position)
            topic = struct.unpack_from(f">{length}s", data, position + 2)[0].decode()
            position += 2 + length
            (count,) = struct.unpack_from(">i", data, position)
            numbers = struct.unpack_from(f">{count}i", data, position + 4)
            position += 4 + 4 * count
            found += [(topic, number) for number in numbers]
    except (struct.error, UnicodeDecodeError):
        return None
    return sorted(found)
