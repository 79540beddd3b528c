"""What the cluster is: brokers, topics and partitions, decided by raft0, the controller group (RFC 0001).

* `commands`              what a raft0 entry says.
* `controller_state`      raft0's commands, from the log into the tables and their snapshot.
* `controller_tables`     the tables: `members_table`, `topic_table`, `producer_id_table`, `feature_table`,
                          `option_table`; `controller_blocks` how they are saved, `saved_members` the admitted brokers.
* `placement`             where a partition is that was ever moved; `saved_placement` how raft0's state holds it.
* `controller`            raft0 on this node: propose a command, find the leader.
* `forwarding`            any broker takes a request, and its leader answers: the rule of the three modules that do so.
* `admin_requests`        topics, brokers, features, options: any broker forwards `admin_messages` to raft0's leader,
                          which decides; about topics in `topics_frontend`.
* `topic_changes`         what a change of a topic leads to, checked before it is proposed; `dynamic_options` the same
                          for what is set on brokers while they run.
* `state_bounds`          how large the state tables may become; `controller_sizes` what raft0's are, `noted_sizes` what
                          those of coordinators are once all of the log is committed, `vital_commands` what raft0's
                          tables take all the same.
* `known_features`        tells raft0's leader again what this broker can do, while the cluster uses less;
                          `present_features` asks all brokers before a level is raised.
* `partition_allocator`   which nodes get the replicas of new partitions.
* `raft0_voters`          who votes in raft0, at its leader: `raft0_candidates` who could, `raft0_table` who does.
* `controller_backend`    makes this node's groups match the tables, by `group_steps`.
* `placements`            moves of partitions, at raft0's leader; `placement_reports` tells it when they are done,
                          `move_status` gathers how far they are.
* `replication_spread`    where a topic goes whose partitions shall have more or fewer replicas.
* `partition`             one local replica as the Kafka edge sees it; `partition_manager` all of them;
                          `partition_reader` reads what consumers may see, up to a `readable_end`; `replica_gauges` what
                          status, metrics and telemetry read off it.
* `retention`             lets leaders delete what has outlived its topic's retention: `retention_rule` says which
                          segments, `retention_start` where the log begins then.
* `compaction`            passes over the logs of compacted partitions: `compaction_rule` says which are due,
                          `compaction_limits` how far; `deletes_bounds` asks how far others are clean (RFC 0022).
* `append_clock`          the leader's time for record batches.
* `partition_status`      where every replica of a partition stands, gathered; `visible_ends` up to where consumers may
                          read many partitions, as their leaders say.
* `producer_state`        the producers of a partition (RFC 0007): `producer_tail` uncommitted, `producer_table`
                          committed, `producer_batch`, `producer_errors`; `producer_ids`, in blocks from raft0's
                          `producer_id_table`.
* `groups`                committed offsets and consumer groups, as a state of `__consumer_offsets` (RFC 0009).
* `transactions`          transactions as partitions and coordinators know them from their logs (RFC 0021).
* `log_states`            which of these states the log of a partition builds up.
* `coordinator_log_state` a coordinator's table behind its log; `coordinator_partition` which partition keeps what,
                          `record_reader` reads what is stored.
* `telemetry`             what every replica did and where it stands, each second, in a topic (RFC 0011).
* `leadership`            who leads which partition, pushed between brokers.
* `leadership_moves`      lets a chosen replica lead; any broker forwards to the partition's leader.
* `events`                the newest events of this broker, each a line of its log (RFC 0016): `node_watch` records
                          which brokers are lost and back, `leadership_events` what this one begins to lead,
                          `move_events` which partitions move, `broker_events` which brokers come and go,
                          `controller_events` which features change, and who votes in raft0.
* `idle_probe`            asks over silent links, so that a broker that stands still is lost for all others too.
* `health_counts`         how many partitions a broker leads, and how many of them are in trouble; raft0's leader:
                          brokers alive, and partitions that nobody leads.
* `quorum_status`         where raft0's voters stand, as its leader knows.
* `cluster_entry`         to which cluster this node belongs: `founding` is how the seeds become one, once,
                          `founding_words` what they say and write down, and `founders_levels` at which levels of
                          features; `joining` how other brokers come in; `first_contact` what a broker asks before it
                          writes anything; `known_brokers` whom its links reach; `registration` tells raft0 where this
                          one is.
* `broker_changes`        brokers are drained, emptied, replaced and removed, at raft0's leader: `broker_rules` what is
                          refused, `broker_waits` what is waited for, `evacuation` moves what must leave, `move_index`
                          which partitions that may be, `move_places` how many move at a time, `draining` hands over
                          what a broker leads.
* `data_directory`        the identity of this node's disk; `directory_stamp` marks it for versions that must not read
                          it any more.
* `data_directory_watch`  whether that is still the directory at its path, and its free bytes.
* `node_options`          the options of a node.
* `node`                  all of the above wired for one node, without any client-facing port.
* `errors`
"""
