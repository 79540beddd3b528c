"""What `__consumer_offsets` says: committed offsets and group metadata, as a state of its partitions' logs (RFC 0009).

- records: keys and values in Kafka's own formats
- pending_offsets: offsets of transactions that are open, and what entries do to them (RFC 0021)
- group_table: the offsets and groups that committed records have left
- offsets_log_state: the table behind a log: noted, committed, in snapshots
- offsets_topic: the topic's name, its configuration, and which partition keeps a group
"""
