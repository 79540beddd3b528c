"""Agreement (RFC 0003, 0004, 0008): one group, and many groups on one node.

* `consensus`               one replica's public face: replicate, positions, roles; handles its peers' requests.
* `rules/`                  pure decisions: agreement (commit, visible, answer), append, election, recovery.
* `replica_state`           term, vote, role, positions; synchronous transitions only. `effects` has their results;
                            `Consensus.settle` acts on them, and then asserts `invariants`.
* `replicate_batcher`       merges many replicate calls into few rounds, bounded in bytes.
* `replicate_item`          one replicate call: its entries, level and two stages.
* `replicate_entries_stm`   one round: append to the own log, dispatch to followers, flush.
* `append_dispatch`         sends one follower's appends and takes the replies, for rounds and recovery.
* `replica_flusher`         decides when a replica fsyncs.
* `replication_monitor`     answers a call when its entries have reached its level.
* `unreplicated_bytes`      bytes that a leader has written and no majority has; beyond a bound, producers wait.
* `node_resources`          what all replicas of a node share: seams, options, the kvstore, the links, `node_limits`.
* `node_limits`             bounds over all groups of a node: batchers, followers' requests, snapshots, `disk_reserve`,
                            `node_stalls`.
* `append_entries_buffer`   follower: takes many requests at once, with one lock and one flush.
* `append_buffer_budget`    bounds the bytes in these buffers, over all followers of a node.
* `recovery_stm`            brings one lagging follower up to date from the log.
* `recovery_pace`           how fast it may send: `recovery_throttle` has the rates of a node, each a `token_bucket`;
                          `recovery_trend` whether the follower comes nearer.
* `compaction_bounds`       what the members of a group tell each other of log compaction; `rules/clean_indexes` judges.
* `vote_stm`                one election: pre-vote, then vote; `election_timer` decides when.
* `voter`                   answers vote requests; `vote_store` makes term and vote durable.
* `leadership_transfer`     hands the leadership to a chosen voter; `leader_watch` decides when a leader must leave.
* `write_steps`             which steps of writes are under way, and since when; `node_stalls` has the node's own.
* `write_probe`             finds steps that hang, and tries whether the disk takes writes again.
* `linearizable_barrier`    confirms for readers that this replica still leads.
* `heartbeat_manager`       one message per node pair for all groups; `group_heartbeats` is one group's part of it.
* `asked_heartbeats`        those that readers ask for: all who ask a node share one message at a time.
* `group_manager`           all groups of this node.
* `service`                 receives the requests of peers; `client` is the interface for sending them,
                            `links_raft_client` implements it on `rpc`; `link_methods` has the methods' numbers.
* `replica_directories`     which replicas must be on this disk: markers in the kvstore, set and removed in order.
* `gravestone`              vote and log end of a replica that has left its node, while its group goes on.
* `log_state`               interface of a state that is a function of the log, such as a partition's producers.
* `replica_log_state`       keeps that state and the log start in step with log, commit and snapshot.
* `stepped_log_state`       settles, saves and restores that state in steps, other tasks in between.
* `snapshot_receiver`       follower: collects and installs a snapshot; `recovery_stm` sends it in `snapshot_chunks`.
* `snapshot_budget`         bounds the bytes of snapshots on their way, over all followers of a node.
* `replica_opening`         opens a replica's log; sets damaged bytes aside if other voters have them.
* `vote_floor`              until a replica has again what damage took, it grants no vote to a shorter log.
* `follower_index_metadata` what the leader knows of one follower.
* `link_names`              what messages call a group: another name once its configuration was forced.
* `group_configuration`     voters and learners, and the policy that turns voters into quorums.
* `configuration_log`       which configuration is in force: the newest in the log; `configuration_entry` has its bytes.
* `membership_steps`        pure: the next configuration on the way to other voters; `reconfiguration_stm` goes there.
* `call_figures`            calls, applies and entries of all groups of a node, by kind; always kept.
* `interval_figures`        the same of one replica, and its fsyncs, since the last telemetry record.
* `replica_counts`          counts what a replica does into both.
* `deadline_queue`          one loop timer for the deadlines of all groups.
* `messages`, `options`, `errors`, `probe`, `replica_context`
"""
