"""One module per API: a coroutine from request to response. `registry` says which keys and versions are served.

* `api_versions`, `metadata`, `describe_cluster`, `describe_topic_partitions`: what and where.
* `produce`, `init_producer_id`, `fetch`, `list_offsets`, `offset_for_leader_epoch`: records.
* `create_topics`, `delete_topics`, `create_partitions`: administration; `topic_admin` is what they share.
* `delete_records`: not served until a partition's start can be moved.
* `describe_configs`, `alter_configs`: configurations; `config_resources` finds what they belong to.
* `partition_lookup`: from a name or id to the local leader, or the error code that says why not.
* `leader_hints`: who leads instead, for the answers that say "not here".
* `cluster_view`: brokers and leaders as this broker knows them, for the answers that name them.
"""
