"""Figures of every replica, published each second into `__raftka_telemetry` (RFC 0011).

* `telemetry_topic`   the topic: its name, its shape, which partition keeps a key.
* `telemetry_record`  one record: what it says, and how it is read off a replica.
* `telemetry_batch`   records in batches of a bounded size.
* `telemetry_relay`   takes a batch to the leader of its partition, wherever that is.
* `outbox`            what waits until the topic has a leader again, for some seconds.
* `publisher`         once a second: all of it.
"""
