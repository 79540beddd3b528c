"""How a long list of deletions is written: as several record batches, each within the bound of one. Pure."""

from collections.abc import Iterator, Sequence

from cluster.groups.records import Key, encode_record

# A record's lengths and deltas, at most.
_RECORD_BYTES = 32
_BATCH_BYTES = 128


def deletion_parts(keys: Sequence[Key], bytes_max: int) -> Iterator[list[Key]]:
    """Yield the keys in order, in parts whose batches have at most `bytes_max` bytes; a longer key goes alone."""
    part: list[Key] = []
    size = _BATCH_BYTES
    for key in keys:
        added = _RECORD_BYTES + len(encode_record(key, None).key)
        if part and size + added > bytes_max:
            yield part
            part, size = [], _BATCH_BYTES
        part.append(key)
        size += added
    if part:
        yield part
