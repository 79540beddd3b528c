"""Raftka beside Apache Kafka in the same run: one script for each number, each a module with `measure`.

* `plan`         how many pairs of which length; `match` plays them A B A B; `verdict` makes rows of ratios of them.
* `produce`      MB/s and CPU of librdkafka's producer; `small_requests` of Kafka's own with its small batches.
* `consume`      1 GB from the page cache, and from the disk.
* `one_in_flight`, `open_loop`, `mixed_levels`   latencies.
* `footprint`    memory and CPU of brokers that have nothing to do; `connections` of each idle connection.
* `groups`       rebalances and commits of consumer groups; `group_consume` a member that reads what is being written.
* `transactional`  both clusters with transactions; `transaction_rate`, `visible_commits` and `transform` measure them.
* `compacted`    topics that are compacted, and passes; `compacted_produce` and `compacted_latency` measure them.
* `spark_source`  Spark's Kafka source, with the extra `spark`.

Both clusters run all the time and one of them is loaded: to start them in turns would have every run of Kafka on a cold
JVM. What the other cluster costs while it waits (about 4 % of a core for a Kafka broker, 1 % for one of Raftka's) is
taken from the one that is measured, so Raftka has a tenth of a core less than it would have alone, and Kafka three
hundredths.
"""
