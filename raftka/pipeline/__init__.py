"""Pipelines on Spark (RFC 0010, RFC 0013 to 0015): `raftka pipeline`, `raftka archive` and `raftka audit`.

A kind of pipeline is a module with `Settings`, a `PipelineSettings`, and `build(run)`, which returns a query that is
not started yet. What it computes are functions from DataFrame to DataFrame. PySpark is imported by kinds, and by what
is used when one runs.

What a person sets:

* `settings`     keys and their types.
* `config_file`  pipelines.toml, the environment, flags.
* `kinds`        which kinds there are.

A run:

* `spark_session`    PySpark and Java, or what to install; a session.
* `connector`        the JARs of Spark's Kafka connector; `jar_cache` fetches and checks them.
* `run`              what a kind builds its query with; `source_options` what every read begins with.
* `runner`           start, watch, stop.
* `run_folder`       lock, checkpoints, status; `durable_files` writes.
* `data_folder`      where results lie: format, lock.
* `status`           how a run stands.
* `topic_identity`   a topic that was created again is noticed.
* `json_objects`     what is one JSON object and nothing else.
* `progress`         what a batch came to.
* `listener`         ... as Spark tells it.
* `progress_outputs` ... to the terminal, Prometheus and a topic.
* `query_errors`     why a query failed, in a line.
* `errors`           what all of it raises.

Kinds:

* `archive`   topics to Parquet, verified, restored, compacted.
* `telemetry` what brokers tell of their replicas, in windows, with a plot.
* `examples`  four short ones.

And what is no pipeline, but runs on the same Spark:

* `audit`     histories judged in parallel.

All of it at once:

* `story`     what `make run-pipeline` tells.
"""
