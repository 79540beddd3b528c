"""Telemetry: what the brokers tell of their replicas each second, in windows (RFC 0011, RFC 0015).

What is computed, frame in, frame out:

* `reports`  records of `__raftka_telemetry`, read and judged; gathered by partition and window.
* `figures`  percentiles of arrays and of histograms.
* `seconds`  a partition's state, lag and latency in each second.
* `replication` logs, calls, applies and sets in sync in each second, by partition, topic, broker and cluster.
* `windows`  the same over windows, by partition and for the whole cluster.

The pipeline:

* `settings` keys of the kind.
* `folder`   where tables lie, and how a batch becomes part of them.
* `kind`     the pipeline.

The plot:

* `reading`   rows out of the tables.
* `plot_data` what of them is drawn.
* `plot`      the drawing, by matplotlib.
* `charts_data`, `charts`  what is drawn of replication, and the drawing.
"""
