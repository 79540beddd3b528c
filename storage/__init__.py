"""One partition's bytes on one disk (RFC 0002).

* `entry`            one log entry and its header.
* `log`              Log: append, flush, truncate, read, on top of the four that follow.
* `log_positions`    where it stands: indexes, terms and offsets in memory; steps without an await.
* `log_reader`       entries by index, lookups by offset and timestamp, undisturbed by truncations.
* `log_jobs`         work that goes on when its caller is cancelled; when a removed file may be closed.
* `log_recovery`     what a crash left: scan, cut the torn tail, refuse what is damaged.
* `log_directory`    the identity file of a replica's directory.
* `segment`          one segment file; `segment_index` its sparse index, `index_file` that on disk; `segment_writer`
                     how appends and truncations block.
* `tail_cache`       the newest entries in memory; `group_logger` the prefix of log lines.
* `kvstore`          the small synced facts of a node: the interface and its group commit;
                     `rocks_kvstore` on RocksDB, `memory_kvstore` in memory.
* `options`, `errors`
"""
