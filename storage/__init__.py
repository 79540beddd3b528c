"""One partition's bytes on one disk (RFC 0002).

* `entry`            one log entry and its header; `placeholder` one that stands for several.
* `log`              Log: append, flush, truncate, read, snapshots, on top of those that follow.
* `log_positions`    where it stands: indexes, terms and offsets in memory; steps without an await.
* `log_segments`     which segments there are, which are dirty, whose index file is due: the one owner of the three.
* `log_context`      what the parts of one log share.
* `log_reader`       entries by index, lookups by offset and timestamp, undisturbed by truncations.
* `log_jobs`         work that goes on when its caller is cancelled; when a removed file may be closed.
* `log_appender`     appends; `log_flusher` fsyncs, shared by all who wait; `log_truncation` how a truncation blocks.
* `log_start`        where a log begins; `log_snapshots` moves it durably, `snapshot_file` is its file, and
                     `snapshot_parts` that in format 2.
* `log_health`       poisoned or not, and what the log reports to its owner.
* `log_recovery`     what a crash left: cut the torn tail, refuse or isolate what is damaged; `segment_loader` reads the
                     segments, `damaged_files` keeps copies of what is isolated.
* `log_directory`    the identity file of a replica's directory; `compacted_mark` says how far its log may be compacted,
                     `checked_file` how such small files are written.
* `segment`          one segment file; `segment_index` its sparse index, `index_file` that on disk, written by
                     `segment_indexer`; `segment_writer` how appends and truncations block.
* `aborted_rows`     which transactions the ABORT markers of a segment end; `aborted_lookup` those that a reader leaves
                     out, `rows_budget` what is kept of them in memory.
* `segment_cleaning` a pass of log compaction: segments without what has a newer record; each is a `cleaned_output`.
* `cleaning_process` such a pass in a process of its own.
* `log_compaction`   what a pass may clean, and the swap of its outputs into the log; `segment_swap` is how that blocks.
* `tail_cache`       the newest entries in memory; `read_cache` what consumers read behind them; `read_ahead` what a
                     reader of the files will ask for next; `verified_ranges` what was found whole in the files, and
                     `file_range` how it is sent from there.
* `group_logger`     the prefix of log lines.
* `kvstore`          the small synced facts of a node: the interface and its group commit;
                     `rocks_kvstore` on RocksDB, `memory_kvstore` in memory; `wal_mark` how far the WAL was fsynced.
* `options`, `errors`
"""
