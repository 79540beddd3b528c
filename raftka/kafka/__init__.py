"""Kafka clients for the CLI, chaos runs and pipelines; they work with any Kafka.

* `client`       librdkafka: topics, producers, consumers, and errors in one line.
* `assignments`  which partitions a member of a group was assigned.
* `configs`      options of topics and brokers.
* `elections`    preferred replicas that are to lead.
* `features`     features of brokers, and the levels that a cluster uses.
* `groups`       consumer groups: members, offsets, deletion.
* `loggers`      levels of the loggers of brokers.
* `offsets`      where partitions begin and end, and which offset a time has.
* `one_broker`   a request to one broker itself.
* `probe`        what listens at an address that answers as no Kafka broker does.
* `quorum`       whether so many brokers answer that the cluster can decide anything.
* `reassigned`   which partitions are being moved, and which replicas of theirs only come.
* `transactions` transactional ids, and transactions that hang in partitions.
* `wire`         a client of our own, which shares no line with the brokers.
"""
