"""One partition's bytes on one disk (RFC 0002).

* `entry`          one log entry and its header.
* `log`            Log: append, flush, truncate, read; positions by index, offset and timestamp.
* `segment`        one segment file and its sparse index.
* `log_recovery`   what a crash left: scan, cut the torn tail, refuse what is damaged.
* `kvstore`        the small synced facts of a node; `rocks_kvstore` on RocksDB, `memory_kvstore` in memory.
* `options`, `errors`
"""
