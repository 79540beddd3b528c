"""Apache Kafka as the cluster that Raftka is measured beside: its jars by Maven, three KRaft brokers on loopback.

* `jars`          what pom.xml names, in build/benchmarks/kafka-jars.
* `kafka_cluster` the brokers, with the interface of `benchmarks.cluster.BenchCluster`.
"""
