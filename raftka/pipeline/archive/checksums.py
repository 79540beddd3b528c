"""CRC32C of values, as Spark's Python workers compute it; they import this module, and no PySpark with it."""

import crc32c


def value_crc32c(value: bytes | bytearray | None) -> int | None:
    """Return the CRC32C of a value; None for none."""
    return None if value is None else int(crc32c.crc32c(value))
