"""Measurements of a cluster of three brokers on loopback, with its data on a real disk, alone or beside Apache Kafka.

    python -m benchmarks [NAME...] [--quick] [--pairs N] [--seconds S] [--data-dir DIR]

* `start_time`     `raftka dev` until a record is acknowledged, and each command's `--help`.
* `failover`       leaders that are killed, stopped or cut off under load; `faults` does that to them.
* `mixed_levels`   in `compare`: writers at acks=1 and acks=all on one partition.
* `level_stages`   where such calls spend their time in the leader; `timed_process` is the broker that notes it.
* `living`         clusters that change while they run: moves, restarts, new brokers, lost disks.
* `soak`           ten minutes of full load with retention.
* `transactions`   rates, latencies and failover of transactions, part by part; `transactional_ids` is one of them.
* `compaction`     compacted topics, part by part: `compaction_pass`, `compaction_overwrites`, `compaction_slices` (its
  brokers are `sliced_process`), and what is measured beside Kafka.
* `scrape_cost`    what a scrape of the metrics costs, and what producers feel of it.
* `checkers`       `raftka check` on one core; `audit`: the same on Spark.
* `archive`        a topic to Parquet and back to the log's CRC32C, on Spark. Both need the extra `spark`.
* `compare`        what is measured beside Apache Kafka in the same run; `kafka` starts it.
* `cluster`        the brokers that are measured, and what their admin ports tell.
* `native_client`  the clients in C (native/), for what a Python loop is too slow for; `load`: those in Python.
* `wire`           a client of a few lines over the generated codec, for members of groups by the thousand.
* `versions`       this checkout beside another one; `produce_cpu`: the CPU time of one request.
* `processes`, `machine`   what /proc tells.
* `plan`, `report` lengths of runs; summaries and the JSON files in results/. `table`: all their rows as one table;
  `readme_figures`: some of them as README's; `figures`: numbers and markers of both; `consume_picture` a picture.
* `profile_broker` where a broker's event loop spends its time; `profiled_process` is the broker it looks into.

Nothing here passes or fails by time: a number is a number, and a target that is missed is shown as missed. Only a run
that was disturbed is repeated.
"""
