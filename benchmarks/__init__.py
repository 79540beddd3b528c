"""Measurements of a cluster of three brokers on loopback, with its data on a real disk.

    python -m benchmarks [NAME...] [--quick] [--data-dir DIR]

* `start_time`     `raftka dev` until a record is acknowledged.
* `failover`       SIGKILL of leaders under load.
* `idle`           memory and CPU of brokers that have nothing to do.
* `latency`        one record in flight.
* `throughput`     as much as librdkafka and the brokers can.
* `cluster`        the brokers that are measured, and what their admin ports tell.
* `load`           producers and consumers; `processes`, `machine`: what /proc tells.
* `report`         summaries and the JSON files in results/.
* `profile_broker` where a broker's event loop spends its time; `profiled_process` is the broker it looks into.

Nothing here passes or fails by time: a number is a number. Only a run that was disturbed is repeated.
"""
