"""Agreement (RFC 0003, 0004, 0008): one group, and many groups on one node.

* `consensus`               one replica's public face: replicate, positions, roles; handles its peers' requests.
* `rules/`                  pure decisions: agreement (commit, visible, answer), append, election, recovery.
* `replica_state`           term, vote, role, positions; synchronous transitions only. `effects` is what they return,
                            and `Consensus.settle` acts on it; `invariants` then hold.
* `replicate_batcher`       many replicate calls -> few rounds, bounded in bytes.
* `replicate_item`          one replicate call: its entries, level and two stages.
* `replicate_entries_stm`   one round: append to self, dispatch to followers, flush.
* `append_dispatch`         sends one follower's appends and takes the replies, for rounds and recovery.
* `replica_flusher`         when a replica fsyncs.
* `replication_monitor`     wakes those who wait for a level.
* `unreplicated_bytes`      how far a leader has run ahead of its majority: producers wait by it.
* `node_resources`          what a node gives to all of its replicas.
* `node_limits`             what all groups of a node share: batcher memory, `disk_reserve` and `node_stalls`.
* `append_entries_buffer`   follower: many requests, one lock, one flush.
* `append_buffer_budget`    what all of them on a node may hold.
* `recovery_stm`            brings one lagging follower up to date from the log.
* `vote_stm`                one election: pre-vote, then vote; `election_timer` decides when.
* `voter`                   the other side of elections; `vote_store` makes term and vote durable.
* `leadership_transfer`     hands the leadership to a chosen voter; `leader_watch` finds out when it must go.
* `write_steps`             which steps of writes are under way, and since when; `node_stalls` what a node knows of it.
* `write_probe`             finds steps that hang, and tries whether the disk takes writes again.
* `linearizable_barrier`    confirms for readers that this replica still leads.
* `heartbeat_manager`       one message per node pair for all groups; `group_heartbeats` is one group's part of it.
* `group_manager`           all groups of this node.
* `service`                 takes the requests of peers; `client` is what replicas need of the wire, `links_raft_client`
                            does it on `rpc`, by the numbers of `link_methods`.
* `replica_directories`     which replicas must be on this disk: markers in the kvstore, set and removed in order.
* `log_state`               what a group knows because of the entries it holds: follows the log, is rolled back with it.
* `replica_log_state`           keeps that state and the log start in step with log, commit and snapshot.
* `stepped_log_state`       settles, saves and restores that state in steps, other tasks in between.
* `snapshot_receiver`       follower: collects and installs a snapshot; `recovery_stm` sends it.
* `snapshot_budget`         what all of them on a node may hold.
* `replica_opening`         opens a replica's log; where bytes are damaged and others have them, without these.
* `vote_floor`              who lost entries to damage does not vote as if it had never had them.
* `follower_index_metadata` what the leader knows of one follower.
* `group_configuration`     voters, and the policy that turns them into quorums.
* `interval_figures`        how long a replica's calls and fsyncs took since somebody last asked.
* `deadline_queue`          one loop timer for the deadlines of all groups.
* `messages`, `options`, `errors`, `probe`, `replica_context`
"""
