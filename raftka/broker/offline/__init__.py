"""Logs of partitions read from files alone, without a broker: `raftka debug log`. Nothing here changes a disk.

* `read_only_files`  the file system without what changes it.
* `lock_holder`      which process holds a data directory.
* `segment_walk`     the entries of one segment file, and the damage between them.
* `log_rows`         one log directory as rows.
* `transaction_rows` what rows say of transactions.
* `data_directory_rows`  the log directories of a data directory, with the names of their topics.
* `row_text`         rows as text.
"""
