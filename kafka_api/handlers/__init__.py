"""One module per API: a coroutine from request to response. `registry` says which keys and versions are served.

* `api_versions`, `metadata`, `describe_cluster`, `describe_topic_partitions`: what and where.
* `produce` with `produced_batch` (what may be appended) and `produce_admission` (transactions), `init_producer_id`,
  `fetch`, `list_offsets`, `offset_for_leader_epoch`: records.
* `fetch_context`: what a Fetch is about, with and without a session.
* `create_topics`, `delete_topics`, `create_partitions`: administration; `topic_admin` is what they share.
* `alter_partition_reassignments`, `list_partition_reassignments`: partitions move between brokers (RFC 0019).
* `update_features`: which levels of features the cluster uses.
* `delete_records`: moves a partition's start.
* `elect_leaders`, `describe_quorum`: who leads partitions, and raft0.
* `describe_producers`, `describe_log_dirs`: the idempotent producers of a partition; what replicas take on disk.
* `find_coordinator`: who keeps a group, or a transactional id.
* `join_group`, `sync_group`, `heartbeat`, `leave_group`: members of consumer groups (RFC 0009).
* `offset_commit`, `offset_fetch`, `offset_delete`, `txn_offset_commit`: what groups have committed.
* `describe_groups`, `list_groups`, `delete_groups`: groups as administrators see them.
* `add_partitions_to_txn`, `add_offsets_to_txn`, `end_txn`: a producer's transaction (RFC 0021).
* `write_txn_markers`, `transactions`: transactions as administrators see and end them.
* `acls`, `client_quotas`, `scram_credentials`, `sasl_handshake`: what is not built, and says so.
* `answered_later`: answers that follow while the connection reads on; `in_steps`: long requests in short steps.
* `describe_configs`, `alter_configs`, `list_config_resources`: configurations; `config_resources`: whose;
  `broker_loggers`: levels of loggers.
* `partition_lookup`: from a name or id to the local leader, or the error code that says why not.
* `leader_hints`: who leads instead, for the answers that say "not here".
* `cluster_view`: brokers and leaders as this broker knows them, for the answers that name them.
"""
