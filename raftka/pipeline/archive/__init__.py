"""The archive: topics as Parquet files by topic and day, every offset exactly once (RFC 0013).

What lies on disk:

* `folder`     places in an archive, and its locks.
* `records`    commit records: which files count.
* `manifest`   all records together: the files that count now, and where each partition ends.
* `commits`    how files become part of it: by one rename, and moved after it.

Writing:

* `settings`   keys of the kind.
* `checksums`  CRC32C of values.
* `frames`     from Kafka's rows to the archive's, JSON, dead letters.
* `batch_offsets` what Spark's checkpoint says that a batch reads.
* `kind`       the pipeline.
* `compaction_plan` which files are joined, `compaction` joins them.

Reading:

* `reading`    the files that count, as a DataFrame.
* `blocks`     sums over offsets, compared.
* `scope`      which offsets are compared, and which are only told of.
* `gaps`       why offsets have no record; `gap_search` finds them, `log_pieces` reads the log there.
* `superseded` which records compaction may have removed, because a later one of their key is there.
* `findings`   what a comparison comes to.
* `verification` the archive against the log.
* `restoring`  a range back into a topic, `replay` writes it.
"""
