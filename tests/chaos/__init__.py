"""Real brokers under real faults: short runs in the suite, the long matrix by `make chaos`.

* `matrix`  the runs of `make chaos`, as command lines.
* `report`  docs/verification/chaos.md, made from what runs have left.
* `foreign` the workload on Apache Kafka.
"""
