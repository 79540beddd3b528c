"""Bugs that random search hardly ever shows: each is planted by a test, whose written schedule shows it."""

from typing import NamedTuple


class ScenarioBug(NamedTuple):
    """What breaks, where it is known from, and the test that plants it and expects what it was written for to fail."""

    bug: str
    source: str
    test: str


_SCENARIOS = "tests/simulation/scenarios"
_LOST_MARKERS = f"{_SCENARIOS}/test_rows_of_lost_markers.py"
_LEAVING = f"{_SCENARIOS}/test_replicas_that_leave.py"
_SCHEDULES = "tests/unit/raft/test_membership_schedules.py"
_AT_COORDINATORS = (
    "tests/unit/kafka_api/transactions/test_coordinator_bugs.py::test_a_bug_planted_in_the_coordinator_is_found"
)
_IN_PARTITIONS = "tests/unit/kafka_api/test_transaction_bugs.py::test_a_planted_bug_in_transactions_is_found"
_DELETES = f"{_SCENARIOS}/test_deletes_of_members.py"
_LIMITS = f"{_SCENARIOS}/test_limits_of_passes.py"
_IN_PASSES = "tests/unit/storage/test_planted_compaction_bugs.py::test_a_bug_planted_in_compaction_is_found"
BY_SCENARIO = (
    ScenarioBug(
        "segments go after a snapshot was renamed into its place and before the directory was fsynced",
        "RFC 0002 section 13",
        "tests/unit/storage/test_log_power_loss.py::test_flushed_entries_do_not_survive_if_a_snapshots_name_is_not_fsynced",
    ),
    ScenarioBug(
        "what is left of a refused append is cut off, and the cut is not fsynced",
        "RFC 0002 section 4",
        "tests/unit/storage/test_log_power_loss.py::test_a_refused_append_comes_back_if_the_undo_is_not_fsynced",
    ),
    ScenarioBug(
        "what is visible and not committed is sent from its file, where a later leader's entries may lie by then",
        "RFC 0002 section 14",
        "tests/unit/storage/test_verified_ranges.py::test_other_entries_would_be_sent_if_uncommitted_ranges_were",
    ),
    ScenarioBug(
        "a job of a log that ends in an unforeseen error leaves its lane taken",
        "RFC 0002 section 11",
        "tests/unit/storage/test_log_jobs.py::test_whoever_waits_would_wait_for_ever_in_a_lane_that_does_not_end",
    ),
    ScenarioBug(
        "a data directory that was moved away is made again, because files are found by their path",
        "RFC 0002 section 3",
        f"{_SCENARIOS}/test_vanished_directories.py::test_a_directory_would_be_made_again_if_files_were_found_by_their_path",
    ),
    ScenarioBug(
        "nobody compares the data directory with the one at its path",
        "RFC 0002 section 3",
        f"{_SCENARIOS}/test_vanished_directories.py::test_a_broker_without_its_directory_would_live_on_if_nobody_looked",
    ),
    ScenarioBug(
        "a state that is too large for a snapshot ends in an assert, or poisons its replica",
        "RFC 0008 section 5",
        f"{_SCENARIOS}/test_states_too_large.py::test_all_replicas_end_together_if_too_large_a_state_is_an_assert_or_poisons",
    ),
    ScenarioBug(
        "the log starts anew where the node id is taken for the replica's identity",
        "counterexample 4",
        f"{_SCENARIOS}/test_wiped_replica.py::test_a_committed_entry_is_lost_where_the_node_id_is_the_identity",
    ),
    ScenarioBug(
        "any reply of the leader's term confirms a reader",
        "counterexample 1",
        f"{_SCENARIOS}/test_linearizable_reads.py::test_an_earlier_reply_would_confirm_a_reader_if_any_reply_of_the_term_counted",
    ),
    ScenarioBug(
        "a confirmation that began before a reader came counts for it",
        "RFC 0003 section 10; RFC 0009",
        f"{_SCENARIOS}/test_linearizable_reads.py::test_a_round_on_its_way_would_confirm_a_reader_that_joins_it_behind_a_write",
    ),
    ScenarioBug(
        "BUSY is said in the term of the request",
        "counterexample 35",
        f"{_SCENARIOS}/test_linearizable_reads.py::test_a_busy_replica_would_confirm_a_reader_if_busy_named_the_requests_term",
    ),
    ScenarioBug(
        "a round that began before a reader came counts for him",
        "RFC 0003 section 10",
        f"{_SCENARIOS}/test_shared_reads.py::test_a_reader_is_told_too_little_if_a_round_that_began_before_counts_for_him",
    ),
    ScenarioBug(
        "the leader tells the latest offset alone by default",
        "RFC 0003 section 10; Kafka's own promise",
        f"{_SCENARIOS}/test_shared_reads.py::test_a_deposed_leader_would_tell_too_little_if_nobody_were_asked_by_default",
    ),
    ScenarioBug(
        "an unlink is not made durable, newest segment first",
        "counterexample 16",
        f"{_SCENARIOS}/test_unlinked_segments.py::test_a_truncated_segment_comes_back_if_an_unlink_is_not_made_durable_newest_first",
    ),
    ScenarioBug(
        "a flush that crosses a truncation just ends",
        "counterexample 18",
        f"{_SCENARIOS}/test_flush_across_a_truncation.py::test_what_remains_waits_for_ever_if_the_flush_just_ends",
    ),
    ScenarioBug(
        "a voter does not count the append that it is still writing",
        "counterexample 19",
        f"{_SCENARIOS}/test_appends_in_flight_at_a_vote.py::test_an_acknowledged_write_is_lost_where_it_does_not",
    ),
    ScenarioBug(
        "a candidate stands with more than what is written",
        "counterexample 32",
        f"{_SCENARIOS}/test_appends_in_flight_at_a_vote.py::test_a_committed_entry_is_lost_where_it_stands_with_more",
    ),
    ScenarioBug(
        "a deletion waits for the newest write until none is under way, and never gives the loop back",
        "RFC 0009; seed 100082 at 4cc2745",
        "tests/unit/kafka_api/groups/test_full_group_tables.py::test_a_deletion_waits_for_a_commit_that_a_refused_one_has_overtaken",
    ),
    ScenarioBug(
        "a coordinator says that a group is not there, and asks nobody whether it still leads",
        "seed 20350 of the campaign at 81e31de; RFC 0012",
        "tests/unit/kafka_api/groups/test_group_deletion.py"
        "::test_a_group_is_denied_if_nobody_confirms_that_it_is_not_there",
    ),
    ScenarioBug(
        "a connection does not remember what it has refused of a producer",
        "a run of `raftka chaos`; RFC 0007",
        "tests/unit/kafka_api/test_idempotent_producers.py"
        "::test_a_producer_is_told_of_a_gap_if_the_connection_remembers_nothing",
    ),
    ScenarioBug(
        "a snapshot that arrives is not compared with its checksum",
        "RFC 0008 section 5; Protocol-Aware Recovery, FAST 2018",
        f"{_SCENARIOS}/test_flipped_snapshot_bytes.py::test_a_damaged_snapshot_is_installed_if_the_checksum_is_not_compared",
    ),
    ScenarioBug(
        "followers queue whatever the windows of all leaders allow",
        "RFC 0003 section 6",
        f"{_SCENARIOS}/test_append_buffers.py::test_a_follower_holds_more_if_nothing_bounds_the_node",
    ),
    ScenarioBug(
        "a fetch that was read over two elections is shown in the newer term",
        "RFC 0003 section 10",
        f"{_SCENARIOS}/test_hung_reads.py::test_a_hung_read_shows_more_than_the_watermark_if_the_term_is_not_compared_again",
    ),
    ScenarioBug(
        "a replica that hangs while it is opened holds up all others",
        "RFC 0001 section 5",
        f"{_SCENARIOS}/test_hung_opens.py::test_others_are_not_opened_if_each_waits_for_the_ones_before",
    ),
    ScenarioBug(
        "the watch over leaders looks at fsyncs only",
        "counterexample 40",
        f"{_SCENARIOS}/test_hung_writes.py::test_others_do_not_take_over_if_the_watch_looks_at_fsyncs_only",
    ),
    ScenarioBug(
        "a leader whose kvstore hangs stays",
        "RFC 0003 section 7",
        f"{_SCENARIOS}/test_hung_writes.py::test_others_do_not_take_over_if_nobody_looks_at_the_kvstore",
    ),
    ScenarioBug(
        "handing over waits for the round that hangs",
        "RFC 0003 section 7",
        f"{_SCENARIOS}/test_hung_writes.py::test_others_take_over_later_if_the_transfer_waits_for_the_batcher",
    ),
    ScenarioBug(
        "a leader whose disk hangs stands again at once",
        "counterexample 40",
        f"{_SCENARIOS}/test_hung_writes.py::test_a_leader_that_left_would_stand_in_vain_if_nothing_were_in_doubt",
    ),
    ScenarioBug(
        "a leader counts the time in which its own loop stood still against its disk, and leaves",
        "RFC 0003 section 7",
        f"{_SCENARIOS}/test_stalled_loops.py::test_a_leader_would_leave_if_the_time_of_a_loop_that_stood_still_counted",
    ),
    ScenarioBug(
        "a node counts the time in which its own loop stood still against its disk, and stands for no election",
        "RFC 0003 section 7",
        f"{_SCENARIOS}/test_stalled_loops.py::test_a_disk_would_be_doubted_if_the_time_of_a_loop_that_stood_still_counted",
    ),
    ScenarioBug(
        "the header of a frame is not compared with its checksum",
        "RFC 0001 section 3",
        f"{_SCENARIOS}/test_flipped_votes.py::test_a_refused_vote_elects_a_leader_if_headers_are_not_compared_with_their_checksums",
    ),
    ScenarioBug(
        "a link to a follower that takes nothing queues whatever windows allow",
        "RFC 0003 section 9",
        f"{_SCENARIOS}/test_frozen_followers_link.py::test_a_stuck_follower_fills_more_than_its_links_bound_if_nothing_is_refused",
    ),
    ScenarioBug(
        "producers are forgotten by a clock that can be set",
        "RFC 0007, limits",
        f"{_SCENARIOS}/test_idempotent_duplicates.py::test_a_jump_of_the_clock_forgets_producers_if_they_expire_by_the_wall_clock",
    ),
    ScenarioBug(
        "the kept tail is written to another place",
        "counterexample 34",
        f"{_SCENARIOS}/test_kept_tail.py::test_a_second_crash_loses_entries_if_the_tail_moves_to_another_place",
    ),
    ScenarioBug(
        "a heartbeat's late answer counts for whoever is the follower on that node by then",
        "seed 213 of the living profile",
        "tests/unit/raft/test_reconfiguration.py::test_a_late_answer_confirms_if_it_counts_for_the_node_and_not_for_the_follower",
    ),
    ScenarioBug(
        "the new voters of a joint configuration commit without the old ones",
        "Raft thesis 4.1, figure 4.3",
        f"{_SCENARIOS}/test_members.py::test_disjoint_majorities_commit_if_the_new_voters_alone_do",
    ),
    ScenarioBug(
        "a replica that left returns without its gravestone",
        "RFC 0019 section 5",
        f"{_SCHEDULES}::test_a_replica_without_its_gravestone_would_elect_one_who_lacks_it",
    ),
    ScenarioBug(
        "a gravestone keeps the vote, and not where the log ended",
        "RFC 0019 section 5",
        f"{_SCHEDULES}::test_a_replica_with_its_vote_alone_would_elect_one_who_lacks_it_in_a_later_term",
    ),
    ScenarioBug(
        "a removal that is late takes a replica that is wanted again",
        "RFC 0019 section 5",
        f"{_LEAVING}::test_a_late_removal_takes_a_replica_that_counts_if_revisions_are_not_compared",
    ),
    ScenarioBug(
        "a replica that leaves votes on behind its gravestone",
        "RFC 0019 section 5",
        f"{_LEAVING}::test_a_replica_that_leaves_votes_behind_its_gravestone_if_its_fibers_end_late",
    ),
    ScenarioBug(
        "a late report finishes the move that has taken the place of the reported one",
        "RFC 0019 section 6",
        f"{_LEAVING}::test_a_late_report_takes_replicas_that_vote_if_revisions_are_not_compared",
    ),
    ScenarioBug(
        "two voter sets decide before anybody knows whether the new voters answer",
        "RFC 0019 section 3",
        f"{_SCHEDULES}::test_new_voters_that_die_would_stop_the_group_if_nobody_asked_whether_they_answer",
    ),
    ScenarioBug(
        "members change before the barrier of the term",
        "Raft thesis 4.1; Ongaro's bug in it, 2015",
        f"{_SCHEDULES}::test_members_would_change_before_the_barrier_if_whoever_leads_were_in_office",
    ),
    ScenarioBug(
        "a learner votes only once it has what is committed now",
        "RFC 0019 section 3",
        f"{_SCENARIOS}/test_moves_under_load.py::test_a_learner_would_learn_for_ever_under_load_if_it_had_to_reach_the_newest_commit",
    ),
    ScenarioBug(
        "revisions are compared without the generation of raft0",
        "RFC 0019 section 1",
        f"{_SCHEDULES}::test_a_target_from_after_a_recovery_would_be_ignored_if_indexes_alone_were_compared",
    ),
    ScenarioBug(
        "the vote of another directory counts for the node",
        "RFC 0019 section 2",
        f"{_SCHEDULES}::test_another_directory_would_vote_if_the_node_alone_were_compared",
    ),
    ScenarioBug(
        "a broker refuses a directory that was admitted after what it knows",
        "RFC 0020 section 2",
        "tests/unit/cluster/test_missed_admissions.py"
        "::test_a_broker_that_missed_a_replaced_disk_would_refuse_it_if_directories_alone_were_compared",
    ),
    ScenarioBug(
        "a directory of an earlier epoch is let in, or a retired one",
        "RFC 0020 section 2",
        "tests/unit/rpc/test_handshake_bugs.py::test_a_planted_bug_lets_it_in",
    ),
    ScenarioBug(
        "a removed broker registers, a retired directory is given replicas, or a level is in force before all brokers have it",
        "RFC 0020; RFC 0018",
        "tests/unit/cluster/test_member_bugs.py::test_a_planted_bug_is_found",
    ),
    ScenarioBug(
        "a data directory is stamped after it holds its first configuration",
        "RFC 0018 section 5",
        "tests/unit/raft/test_configuration_guard.py::test_a_stamp_after_the_first_entry_of_kind_2_is_found",
    ),
    ScenarioBug(
        "raft0 aims at the voters of the newest entry in its log",
        "RFC 0019 section 7",
        "tests/unit/cluster/test_raft0_voters.py::test_voters_by_the_newest_entry_of_the_log_are_found",
    ),
    ScenarioBug(
        "learners count, a learner stands, or it votes before it has fsynced anything",
        "Raft thesis 4.2.1",
        "tests/unit/raft/test_planted_member_bugs.py::test_a_bug_planted_in_the_change_of_members_is_found",
    ),
    ScenarioBug(
        "there is no joint configuration, or a leader that was removed leads on",
        "Raft thesis 4.3, 4.2.2",
        "tests/unit/raft/test_living_group.py::test_a_planted_bug_is_found",
    ),
    ScenarioBug(
        "a last stable offset is told where the restored state is ahead of the log",
        "RFC 0021 section 3",
        "tests/unit/cluster/test_states_ahead_of_their_logs.py"
        "::test_aborted_records_are_shown_if_a_state_ahead_of_its_log_is_believed",
    ),
    ScenarioBug(
        "a batch is placed whatever its guard says, or its guard is taken behind the coordinator's answer",
        "RFC 0021 section 4; KIP-890",
        _IN_PARTITIONS,
    ),
    ScenarioBug(
        "data of transactions is as relaxed as its topic",
        "RFC 0021 section 4",
        f"{_SCENARIOS}/test_durable_transactions.py::test_a_batch_of_a_transaction_is_lost_if_it_is_as_relaxed_as_its_topic",
    ),
    ScenarioBug(
        "a marker is placed whatever begins at another first offset by then",
        "RFC 0021 section 5",
        f"{_SCENARIOS}/test_slipped_batches.py::test_a_marker_ends_another_transaction_if_nobody_compares_first_offsets",
    ),
    ScenarioBug(
        "a marker's decision is not compared with the largest that is known, or without its term",
        "RFC 0021 section 2",
        _IN_PARTITIONS,
    ),
    ScenarioBug(
        "an administrator's marker is compared like a coordinator's, and dropped as done",
        "RFC 0021 section 5",
        _IN_PARTITIONS,
    ),
    ScenarioBug(
        "a leader says that nothing is open, and nobody confirms that it leads",
        "RFC 0021 section 5",
        _IN_PARTITIONS,
    ),
    ScenarioBug(
        "rows of aborted transactions are read of another view of the log than their batches",
        "RFC 0021 section 6",
        f"{_LOST_MARKERS}::test_a_reader_sees_aborted_records_if_rows_are_of_a_later_view_than_batches",
    ),
    ScenarioBug(
        "rows of aborted transactions stay where their markers were truncated",
        "RFC 0021 section 6",
        f"{_LOST_MARKERS}::test_readers_leave_out_what_is_committed_if_rows_stay_behind_a_truncation",
    ),
    ScenarioBug(
        "a new coordinator forgets what its predecessor has decided",
        "RFC 0021 section 7",
        _AT_COORDINATORS,
    ),
    ScenarioBug(
        "a transaction that has timed out is aborted without a new epoch",
        "RFC 0021 section 7; KIP-890",
        _AT_COORDINATORS,
    ),
    ScenarioBug(
        "a pending offset is applied over a newer one",
        "RFC 0021 section 8; KIP-447",
        "tests/unit/cluster/groups/test_pending_offsets.py::test_the_model_of_pending_offsets_catches_a_planted_bug",
    ),
    ScenarioBug(
        "tombstones go by what the members have matched, and not by how far they are clean",
        "RFC 0022 section 4",
        f"{_DELETES}::test_a_tombstone_goes_too_early_if_what_members_have_matched_bounds_it",
    ),
    ScenarioBug(
        "a replica whose log was damaged and filled again goes on telling its former clean index",
        "RFC 0022 section 4",
        f"{_DELETES}::test_a_tombstone_goes_too_early_if_a_clean_index_outlives_its_log",
    ),
    ScenarioBug(
        "a tombstone goes that a learner lacks",
        "RFC 0022 section 4",
        f"{_DELETES}::test_a_deleted_key_comes_back_in_a_learner_if_only_voters_bound_tombstones",
    ),
    ScenarioBug(
        "one time counts for all tombstones of a segment: the newest one, or the oldest",
        "RFC 0022 section 3; KAFKA-8522",
        _IN_PASSES,
    ),
    ScenarioBug(
        "the newest entry with records goes, and readers never arrive at the end",
        "RFC 0022 section 3",
        _IN_PASSES,
    ),
    ScenarioBug(
        "a broker does not name the newest entry with records to its passes",
        "RFC 0022 section 3",
        f"{_LIMITS}::test_readers_never_arrive_if_the_broker_names_no_newest_record",
    ),
    ScenarioBug(
        "a broker lets its passes go as far as its log, and not as far as what is committed",
        "RFC 0022 section 3",
        f"{_LIMITS}::test_a_committed_record_is_lost_if_the_end_of_the_log_bounds_a_pass",
    ),
    ScenarioBug("the map of a pass holds records above the commit index", "RFC 0022 section 3", _IN_PASSES),
    ScenarioBug("an aborted record supersedes a committed one", "RFC 0022 section 5", _IN_PASSES),
    ScenarioBug("a key equals what the map holds for a longer one", "RFC 0022 section 5", _IN_PASSES),
    ScenarioBug("a placeholder stands for entries of two terms", "RFC 0022 section 2", _IN_PASSES),
    ScenarioBug(
        "an offset that a placeholder covers is looked up as if each entry had one record",
        "RFC 0022 section 2",
        _IN_PASSES,
    ),
    ScenarioBug(
        "a swap is committed without an fsync of the directory, or its sources go without one before the last rename",
        "RFC 0022 section 6",
        _IN_PASSES,
    ),
)
