"""Kinds of pipelines to read and to start from; each is one file of less than 80 lines.

* `windowed_count`  records per key and window, with a watermark.
* `join`            two topics joined by an id within a time, without repetitions.
* `copy`            records of topics to another topic.
* `to_sqlite`       the newest value of each key in a table of SQLite, by foreachBatch.
"""
