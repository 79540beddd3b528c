"""A Kafka client of this package's own, which shares no line with the brokers that it is to judge.

It speaks one version of each request that it needs, none of them flexible, which every Kafka since 2.4 knows.

* `fields`         the primitive types of the protocol.
* `record_batches` batches of one record each, and the records of what a fetch returns.
* `requests`       requests and how their answers are read.
* `client`         connections, correlation ids, and where the leaders are.
* `error_codes`    the codes whose meaning decides what became of an operation.
"""
