"""The words of the system; imports nothing of ours.

* `ids`           Index, Offset, Term, NodeId, Replica, GroupId, ConsistencyLevel.
* `features`      what all brokers must have before one of them uses it, with levels.
* `record_batch`  the Kafka v2 record batch: header fields, validation, in-place stamping.
* `record_codec`  the records inside a batch, for lookups by time.
* `record_filter`  the records inside a batch as log compaction sees them, and a batch with some of them only.
* `key_scan`      which records of a batch have no key.
* `key_value_batch`  batches that brokers write themselves: keys and values.
* `control_batch`  the markers by which brokers end transactions.
* `duration_histogram`  durations of one interval, in buckets that can be added up.
* `fixed_histogram`  durations since the start in fixed buckets, and the longest of the last minute.
* `bounded_names`  names that are labels of metrics, and how many there may be.
* `config_definition`  one configuration key: type, default, bounds, words.
* `counted`  how many of something there are, in words.
* `error_text`  why something failed, in words.
* `replica_tag`  of which replica a log line speaks.
* `throttled_replicas`  which replicas of a topic are moved slowly.
* `topic_config`  topic configuration: the keys that exist, their types and defaults; `fixed_topic_configs` has those of
                  which one value is accepted.
"""
