"""What clients do to a simulated cluster, and what they write down.

* `kafka_workload`  Kafka clients on machines of their own, and the checker's verdict on what they saw: producers,
                  consumers, group members, deleters and admins (`kafka_*`) over `kafka_wire`; in some runs also
                  transactional producers, transformers that work exactly once, and an overtaker of pending offsets.
* `recorder`      writes their history; `told_ends`, `final_questions` judge the answers about a log's ends.
* `workload`      producers and consumers that call a broker's partitions directly, and live and die with it.
* `idempotent_clients`  producers that outlive brokers and retry.
* `history`       the ground truth over all replicas and lives.
"""
