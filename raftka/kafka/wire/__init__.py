"""A Kafka client of this package's own, which shares no line with the brokers that it is to judge.

It speaks one version of each request that it needs. Those of 2.4 are not flexible; newer Kafkas know DescribeCluster
(2.8) and what is about features (3.3).
`raftka archive verify` takes it too, for what Spark does not show of a log.

* `fields`         the primitive types of the protocol.
* `record_batches` batches of one record each; the records of what a fetch returns, and which offsets have none.
* `requests`       requests and how their answers are read.
* `logger_requests` levels of the loggers of a broker.
* `config_requests` options of a broker, by the broker itself.
* `cluster_requests` who is in the cluster, by a broker that knows no controller.
* `feature_requests` features that brokers offer, and the levels that the cluster uses.
* `election_requests` preferred leaders.
* `reassignment_requests` partitions that are being moved.
* `transaction_requests` transactional ids, producers of partitions, and markers.
* `client`         connections, correlation ids, and where the leaders are.
* `error_codes`    the codes whose meaning decides what became of an operation.
"""
