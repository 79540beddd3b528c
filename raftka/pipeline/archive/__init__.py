"""The archive: topics as Parquet files by topic and day, every offset exactly once (RFC 0010)."""
