"""A Kafka client of this package's own, which shares no line with the brokers that it is to judge.

It speaks one version of each request that it needs, none of them flexible, which every Kafka since 2.4 knows.
`raftka archive verify` takes it too, for what Spark does not show of a log.

* `fields`         the primitive types of the protocol.
* `record_batches` batches of one record each; the records of what a fetch returns, and which offsets have none.
* `requests`       requests and how their answers are read.
* `logger_requests` levels of the loggers of a broker.
* `client`         connections, correlation ids, and where the leaders are.
* `error_codes`    the codes whose meaning decides what became of an operation.
"""
