"""One partition's bytes on one disk (RFC 0002).

* `entry`            one log entry and its header.
* `log`              Log: append, flush, truncate, read; positions by index, offset and timestamp.
* `log_recovery`     what a crash left: scan, cut the torn tail, refuse what is damaged.
* `log_directory`    the identity file of a replica's directory.
* `segment`          one segment file; `segment_index` its sparse index; `segment_writer` how an append blocks.
* `tail_cache`       the newest entries in memory.
* `kvstore`          the small synced facts of a node; `rocks_kvstore` on RocksDB, `memory_kvstore` in memory.
* `options`, `errors`
"""
