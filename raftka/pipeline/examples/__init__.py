"""Kinds of pipelines to read and to start from; each is one file.

* `windowed_count`  records per key and window, with a watermark.
"""
