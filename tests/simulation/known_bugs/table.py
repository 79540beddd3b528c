"""The registry of planted bugs, and the one way to plant them: by name.

A bug without objectors is not hunted: the proof of a row of the seed RFC (`tests.simulation.rows`) must fail with it.
"""

import pytest

from tests.simulation.known_bugs import (
    admin,
    agreement,
    brokers,
    compaction,
    counts,
    elections,
    events,
    fetch,
    file_sends,
    grey_failures,
    groups,
    idempotence,
    lag,
    leadership_transfer,
    links,
    log_start,
    membership,
    produce,
    recovery,
    replication,
    rounds,
    storage_recovery,
    storage_writes,
    transactions,
)
from tests.simulation.known_bugs.known_bug import KnownBug, Plant

# Each breaks what was promised about committed entries; which of them is asked first depends on the run.
_COMMITTED = (
    "LeaderCompleteness",
    "StateMachineSafety",
    "CommittedIsDurable",
    "AcknowledgedWrites",
    "VisibleSurvives",
    "Truncation",
    "LogMatching",
)
_LOST = ("lost-write", "unseen", "lost-read", "inconsistent-offsets")
_SKIPPED = ("phantom", "int-poll-skip", "poll-skip", *_LOST)
_STORED = ("FlushedIsDurable", "FlushedSurvives", "CommittedIsDurable", "LogMatching", "AcknowledgedWrites")
_LATEST = (
    "ReadsAreLinearizable",
    "ToldEndsWereVisible",
    "stale-latest",
    "nonmonotonic-latest",
    "future-latest",
    "future-hw",
)

_ELECTIONS = (
    (elections.vote_is_not_synced, "paper 5.2, figure 2", ("VotesAreDurable", "TermsAreDurable")),
    (elections.terms_are_acted_in_before_they_are_durable, "RFC 0003 section 8", ("TermsAreDurable",)),
    (elections.heard_terms_are_never_persisted, "RFC 0003 section 8", ("TermsAreDurable",)),
    (
        elections.term_and_vote_are_not_read_back,
        "paper figure 2",
        ("VotesAreDurable", "VoteOnce", "Positions", "TermsAreDurable"),
    ),
    (elections.votes_go_to_any_log, "paper 5.4.1", _COMMITTED),
    (elections.voters_compare_with_what_they_know_as_committed, "paper 5.4.1", _COMMITTED),
    (elections.the_longer_log_wins_whatever_its_terms, "paper 5.4.1, figure 8", _COMMITTED),
    (elections.one_vote_elects, "paper 5.2", ("ElectionSafety", "ElectionsHaveMajorities", *_COMMITTED)),
    (elections.follower_forgets_its_vote, "paper 5.2", ("VoteOnce", "ElectionSafety", "VotesAreDurable")),
    (elections.new_leader_cuts_its_tail, "paper figure 3", ("LeaderAppendOnly",)),
)
_AGREEMENT = (
    (agreement.written_counts_as_fsynced, "Vanlightly's RaftFsync model", ("MatchesAreTrue",)),
    (agreement.follower_reports_before_its_fsync, "Vanlightly's RaftFsync model", ("MatchesAreTrue",)),
    (agreement.foreign_tail_counts, "paper 5.3; counterexample 5", ("MatchesAreTrue", *_COMMITTED)),
    (
        agreement.two_replicas_are_always_a_majority,
        "paper 5.3; RFC 0003 section 5",
        ("ElectionSafety", "ElectionsHaveMajorities", *_COMMITTED),
    ),
    (agreement.minority_commits, "paper 5.3", ("CommittedIsDurable",)),
    (agreement.old_terms_commit_by_counting, "paper 5.4.2, figure 8", ("CommitRule",)),
    (agreement.visible_is_what_the_leader_wrote, "Redpanda #14794", ("VisibleSurvives",)),
    (
        agreement.leaders_after_the_first_show_what_they_alone_wrote,
        "Redpanda #14794; RFC 0003, levels",
        ("VisibleSurvives", "ReadsAgree"),
    ),
    (agreement.leader_hides_again_what_is_not_committed, "RFC 0003 section 3", ("Positions",)),
    (agreement.relaxed_writes_show_the_quorum_writes_before_them, "Redpanda #14794", ("QuorumWritesWait", *_LOST)),
    (agreement.quorum_write_is_answered_at_once, "RFC 0003, levels", ("AcknowledgedWrites",)),
    (agreement.leader_ack_precedes_the_write, "RFC 0003, levels", ("AcknowledgedWrites",)),
    (agreement.a_lost_leadership_is_a_success, "Redpanda #3003", ("AcknowledgedWrites",)),
    (
        agreement.last_batch_of_a_round_is_written_twice,
        "Redpanda #2580",
        ("AcknowledgedWrites", "ProducerSequences", "duplicate"),
    ),
    (
        agreement.answers_of_older_leaderships_count,
        "Redpanda #13495: answers that come late",
        ("AnswersWereAskedFor", "MatchesAreTrue", "ReadsAreLinearizable"),
    ),
    (agreement.bytes_of_failed_writes_are_not_given_back, "RFC 0003 section 9", ("Convergence",)),
    (agreement.leader_serves_before_its_barrier, "Redpanda #5090, #10885", _LATEST),
    (agreement.reads_are_not_confirmed, "Redpanda #2954; thesis 6.4", _LATEST),
    (agreement.every_item_is_quorum, "RFC 0003, levels", ()),
    (agreement.followers_are_not_asked_to_flush, "RFC 0003, levels", ()),
    (agreement.commit_needs_everybody, "RFC 0003 section 5", ()),
    (agreement.visible_is_commit, "RFC 0003, levels", ()),
)
_ROUNDS = (
    (rounds.relaxed_rounds_are_left_to_recovery, "the seed RFC: the design that it replaces", ()),
    (rounds.dispatch_waits_for_the_flush, "RFC 0003 section 1", ()),
    (rounds.dispatch_precedes_the_write, "RFC 0003 section 1", ()),
    (rounds.the_window_is_wide, "RFC 0003 section 2", ()),
    (rounds.a_request_per_follower, "RFC 0003 section 2", ()),
    (rounds.rounds_are_read_back, "RFC 0003 section 2", ()),
)
_REPLICATION = (
    (replication.follower_commits_what_was_not_matched, "counterexample 5", _COMMITTED),
    (replication.follower_commits_before_its_fsync, "RFC 0003, S2", ("Positions",)),
    (replication.match_outlives_its_leader, "counterexample 5", ("MatchedIsTheLeaders", *_COMMITTED)),
    (
        replication.previous_term_is_not_compared,
        "paper figure 2, AppendEntries 2",
        ("MatchesAreTrue", "MatchedIsTheLeaders", *_COMMITTED),
    ),
    (replication.conflict_is_kept, "paper figure 2, AppendEntries 3", _COMMITTED),
    (replication.every_request_cuts, "Redpanda #17731, #17895", ("Truncation", *_COMMITTED)),
    (replication.cut_goes_below_commit, "paper 5.3", ("Truncation",)),
    (replication.followers_that_lack_little_are_left_alone, "RFC 0004, recovery", ("LagDrains", "Convergence")),
    (replication.hand_over_forgets_the_backlog, "RFC 0004 section 5", ("LagDrains", "Convergence")),
    (replication.producers_are_never_held, "RFC 0003 section 9", ("BoundedRunahead",)),
    (replication.full_windows_hold_producers, "counterexample 11", ("BoundedRunahead",)),
    (replication.offsets_count_batches, "KIP-98; Redpanda #29849", ("OffsetsAreDense",)),
)
_RECOVERY = (
    (recovery.recovery_waits_a_second, "RFC 0004, recovery", ()),
    (recovery.rounds_do_not_heed_recovery, "RFC 0004, R1", ()),
    (recovery.recovery_does_not_wait_for_quiet, "RFC 0004, quiet", ()),
    (recovery.recovery_ends_with_an_answer_at_the_end_of_the_log, "RFC 0004, alternatives", ()),
    (recovery.rounds_skip_whom_recovery_has_served, "RFC 0004, alternatives", ()),
    (recovery.each_refusal_begins_a_recovery, "RFC 0004, quiet", ()),
    (recovery.hand_over_leaves_a_gap, "RFC 0004, R1", ()),
    (recovery.hand_over_sends_twice, "RFC 0004, R1", ()),
)
_LEADERSHIP_TRANSFER = (
    (leadership_transfer.transfers_wait_for_whoever_lags, "RFC 0003, transfer", ()),
    (leadership_transfer.transfers_wait_an_election_timeout, "RFC 0003, transfer", ()),
)
_GREY_FAILURES = ((grey_failures.only_fsyncs_are_watched, "counterexample 40", ("HungLeadersLeave",)),)
_LINKS = (
    (
        links.followers_take_entries_as_they_come,
        "RFC 0001 section 3; counterexample 17",
        ("MatchesAreTrue", "MatchedIsTheLeaders", "OffsetsAreDense", "Convergence", *_COMMITTED),
    ),
)
_LOG_START = (
    (log_start.each_replica_deletes_by_itself, "counterexample 15", ("LogStarts",)),
    (log_start.start_moves_before_its_entry_is_committed, "RFC 0008 section 5", ("LogStarts",)),
    (log_start.snapshot_is_later_than_its_state, "counterexample 36", ("SnapshotsAreTrue",)),
    (
        log_start.snapshot_names_what_is_committed_and_not_yet_settled,
        "counterexample 36; Redpanda #11840",
        ("SnapshotsAreTrue",),
    ),
    (log_start.retention_keeps_only_the_newest_segment, "RFC 0008 section 5", ("Deletions",)),
    (log_start.delete_records_goes_to_the_high_watermark, "KIP-107", ("Deletions",)),
    (log_start.delete_records_takes_the_whole_batch, "KIP-107", ("Deletions",)),
    (log_start.delete_records_is_answered_without_effect, "KIP-107", ("broken-deletion",)),
    (log_start.delete_records_is_answered_before_it_is_committed, "KIP-107; Redpanda #6018", ("broken-deletion",)),
)
_STORAGE_WRITES = (
    (storage_writes.fsync_is_skipped, "RFC 0002 section 5; Jepsen on NATS 2.12.1", ("FlushedIsDurable",)),
    (storage_writes.only_the_newest_segment_is_fsynced, "Redpanda #3100", ("FlushedIsDurable",)),
    (storage_writes.fsync_error_is_ignored, "fsyncgate", ("FlushedIsDurable",)),
    (storage_writes.failed_fsync_is_tried_again, "fsyncgate", ("FlushedIsDurable",)),
    (storage_writes.fsync_covers_what_came_after_it_began, "Redpanda #3531, #15201", ("FlushedIsDurable",)),
    (storage_writes.new_segments_name_is_not_fsynced, "RFC 0002 section 6", ("FlushedIsDurable",)),
    (storage_writes.full_disk_is_a_success, "classic: ENOSPC", _STORED),
    (storage_writes.failed_write_is_a_success, "classic: EIO", _STORED),
    (storage_writes.partial_append_is_left_behind, "RFC 0002 section 4", ("LagDrains", "Convergence", *_STORED)),
    (storage_writes.truncation_keeps_the_next_segment, "counterexample 16", ("Convergence", *_STORED)),
    (storage_writes.index_is_ahead_of_the_log, "classic: index ahead of the log", ("SegmentsCoverTheLog",)),
    (storage_writes.kvstore_writes_are_not_synced, "paper figure 2", ("VotesAreDurable", "TermsAreDurable")),
    (storage_writes.segments_go_before_the_snapshot_is_durable, "RFC 0008 section 2", ("SegmentsCoverTheLog",)),
    (storage_writes.one_segment_too_many_goes, "RFC 0008 section 5", ("SegmentsCoverTheLog",)),
    (storage_writes.refused_descriptor_is_a_broken_disk, "RFC 0002 section 12", ("FailuresHaveReasons",)),
    (
        storage_writes.what_cannot_be_refused_gives_up_without_a_descriptor,
        "RFC 0002 section 12",
        ("FailuresHaveReasons",),
    ),
    (storage_writes.dirty_segments_may_be_closed, "RFC 0002 section 12; fsyncgate", ("DirtyFilesStayOpen",)),
    (storage_writes.refused_write_on_the_loop_is_a_success, "classic: EIO", _STORED),
)
_STORAGE_RECOVERY = (
    (storage_recovery.tail_is_trusted_after_a_kill, "counterexample 9b", ("FlushedIsDurable",)),
    (storage_recovery.torn_tail_is_accepted, "classic: torn tail", ("OpenedLogsAreWhole", *_STORED)),
    (storage_recovery.checksums_are_not_looked_at, "Protocol-Aware Recovery, FAST 2018", ("ReadsAgree", *_STORED)),
    (
        storage_recovery.fetch_does_not_check_what_it_reads,
        "Protocol-Aware Recovery, FAST 2018",
        ("ReadsAgree", *_STORED),
    ),
    (
        storage_recovery.damage_below_the_mark_is_cut_like_a_torn_tail,
        "counterexample 9a; Jepsen on NATS 2.12.1",
        _STORED,
    ),
    (
        storage_recovery.snapshot_checksums_are_not_looked_at,
        "Protocol-Aware Recovery, FAST 2018",
        ("SnapshotsAreTrue", "EqualTables", "LogStarts", "Positions", "FlushedSurvives", "SegmentsCoverTheLog"),
    ),
    (storage_recovery.damage_leaves_no_floor_for_votes, "counterexample 9a", _STORED),
    (storage_recovery.last_entry_is_dropped_at_the_open, "RFC 0002 section 7", _STORED),
)
_PRODUCE = (
    (produce.acks_all_is_taken_for_acks_1, "Redpanda #6018", _LOST),
    (produce.timed_out_write_is_a_success, "KAFKA-13574", ("AcknowledgedWrites",)),
    (produce.lost_leadership_is_a_definite_failure, "KAFKA-13574; G1a", ("aborted-read",)),
    (produce.answer_names_the_offset_after_the_batch, "Redpanda #5355", ("inconsistent-offsets", "inconsistent-acks")),
    (produce.offsets_are_given_away_twice, "Redpanda #3003", ("OffsetsAreDense", "SnapshotsAreTrue")),
    (
        produce.partitions_of_a_request_share_one_answer,
        "KAFKA-13574",
        ("inconsistent-offsets", "inconsistent-acks", *_LOST),
    ),
    (produce.batches_go_to_the_neighbour, "Jepsen's Kafka workload", ("phantom", "AcknowledgedWrites", *_LOST)),
)
_IDEMPOTENCE = (
    (
        idempotence.retries_are_appended_again,
        "Redpanda #3039",
        ("ProducerSequences", "duplicate", "AcknowledgedWrites"),
    ),
    (idempotence.duplicates_are_forgotten_with_the_leader, "KIP-98", ("ProducerSequences", "duplicate")),
    (idempotence.duplicate_is_answered_with_the_end_of_the_log, "Redpanda #5355, #5356", ("AcknowledgedWrites",)),
    (idempotence.duplicate_is_answered_at_once, "counterexample 8", ("AcknowledgedWrites",)),
    (idempotence.out_of_order_is_taken_for_a_duplicate, "KIP-98", ("AcknowledgedWrites",)),
    (idempotence.gaps_in_a_producers_numbers_are_taken, "KIP-98", ("ProducerSequences",)),
    (idempotence.every_broker_hands_out_the_same_producer_ids, "KIP-98", ("AcknowledgedWrites", *_LOST)),
)
_FETCH = (
    (fetch.high_watermark_is_the_end_of_the_leaders_log, "KIP-101", ("ReadsAgree", "ToldEndsWereVisible", *_LOST)),
    (fetch.fetch_is_not_bounded, "KIP-101", ("ReadsAgree", *_LOST)),
    (fetch.told_high_watermark_is_the_end_of_the_log, "KIP-207", ("ToldEndsWereVisible", "nonmonotonic-hw")),
    (fetch.empty_fetch_tells_the_start_of_the_log, "KIP-227", ("nonmonotonic-hw",)),
    (fetch.fetch_leaves_out_a_batch, "Jepsen's Kafka workload", _SKIPPED),
    (fetch.fetch_begins_behind_the_offset, "Jepsen's Kafka workload", _SKIPPED),
    (fetch.fetch_reads_the_neighbour, "Jepsen's Kafka workload", ("Convergence", *_SKIPPED)),
    (fetch.latest_is_read_from_any_replica, "Redpanda #2954", _LATEST),
    (fetch.latest_is_not_confirmed, "counterexample 1; Redpanda #2954", _LATEST),
    (fetch.latest_is_the_last_record, "Redpanda's chaos checker", _LATEST),
    (fetch.latest_is_the_end_of_the_leaders_log, "Redpanda #10921", _LATEST),
    (fetch.local_start_is_that_of_a_batch, "KIP-107, KIP-405", ("wrong-earliest",)),
    (fetch.timestamps_are_found_by_batch, "KIP-79", ("wrong-offset-of-timestamp",)),
    (fetch.every_epoch_ends_with_the_log, "KIP-101, KIP-320", ("wrong-epoch-end",)),
    (fetch.followers_serve_what_they_have_written, "KIP-392", ("ReadsAgree", *_LOST)),
    (file_sends.verified_ranges_survive_truncations, "RFC 0002 section 14", ("ReadsAgree", *_LOST)),
    (file_sends.a_removed_segment_is_sent_as_zeros, "RFC 0002 section 14", ("AnswersAreWhole",)),
)
_ADMIN = (
    (admin.topics_are_created_whatever_the_tables_have, "RFC 0008, B1", ("TablesWithinBounds",)),
    (admin.altered_tables_are_not_measured_again, "RFC 0008, B2", ("TablesWithinBounds",)),
    (admin.deletion_takes_the_first_topic, "RFC 0001 section 5", ("PlacedReplicas",)),
    (admin.deletion_leaves_the_replicas_behind, "RFC 0001 section 5", ("Convergence",)),
    (admin.deletion_leaves_the_directories_behind, "RFC 0001 section 5", ("Convergence",)),
    (admin.one_broker_opens_no_replicas_of_new_topics, "RFC 0001 section 5", ("Convergence",)),
    (admin.leftovers_are_judged_at_the_start, "counterexample 41", ("PlacedReplicas",)),
    (admin.registrations_are_not_confirmed, "counterexample 41", ("RegistrationsAreCurrent",)),
    (admin.registrations_are_answered_with_the_applied_index, "counterexample 41", ("RegistrationsAreCurrent",)),
    (
        admin.topics_are_judged_by_a_leader_that_nobody_confirmed,
        "RFC 0012",
        ("RegistrationsAreCurrent", "not-linearizable"),
    ),
    (admin.producer_ids_are_given_away_twice, "KIP-98", ("AcknowledgedWrites", *_LOST)),
    (admin.restored_tables_forget_the_next_producer_id, "Raft section 7", ("EqualTables",)),
    (admin.topic_changes_are_answered_before_they_are_committed, "Redpanda #6018", ("not-linearizable",)),
    (
        # Topics, and producer ids that two brokers hand out.
        admin.unanswered_topic_change_is_a_success,
        "KAFKA-13574",
        ("not-linearizable", "AcknowledgedWrites", *_LOST),
    ),
)
_GROUPS = (
    (groups.commits_are_answered_when_the_leader_has_written, "RFC 0009, G1", ("GroupOffsets",)),
    (
        groups.committed_offsets_are_one_too_far,
        "Kafka's OffsetCommit: the next offset to read",
        ("ToldEndsWereVisible", *_SKIPPED),
    ),
    (groups.deleted_groups_keep_their_offsets, "KIP-229", ("broken-group",)),
    (groups.generations_are_not_compared, "RFC 0009, G2", ("GroupOwners",)),
    (groups.tables_are_counted_in_characters, "RFC 0008, B2", ("TablesWithinBounds",)),
    (groups.commits_under_way_take_no_room, "RFC 0008, B1", ("TablesWithinBounds",)),
    (groups.a_full_group_table_is_a_success, "RFC 0008, B1", ("TablesWithinBounds",)),
    (groups.assignments_are_answered_before_they_are_stored, "RFC 0009, G2", ("GroupOwners",)),
)
_EVENTS = (
    (events.losses_of_both_directions_are_told, "RFC 0016, W6", ("LostAndBackAlternate",)),
    (events.elections_are_told_before_office, "RFC 0016, W5", ("EventsTellElections",)),
    (events.offices_are_told_by_whoever_hears_of_them, "RFC 0016, W5", ("EventsTellElections",)),
)
_COUNTS = (
    (counts.elected_is_counted_as_led, "RFC 0003 section 6", ("CountsAreTrue",)),
    (
        counts.every_broker_counts_offline_partitions,
        "Kafka: OfflinePartitionsCount of the controller alone",
        ("CountsAreTrue",),
    ),
    (counts.counters_begin_again_with_each_leader, "Prometheus: counters", ("CountersGrow",)),
)
# In runs whose members change.
_MEMBERSHIP = (
    (
        membership.configurations_precede_the_barrier,
        "Raft thesis 4.1; Ongaro's bug in it, 2015",
        ("ConfigurationsOneByOne",),
    ),
    (membership.two_configurations_are_under_way, "Raft thesis 4.1", ("ConfigurationsOneByOne",)),
    (
        membership.voters_change_in_one_step,
        "Raft thesis 4.1",
        ("ConfigurationsFollowTheSteps", "ElectionSafety", *_COMMITTED),
    ),
    (
        membership.joint_configurations_elect_by_one_set,
        "Raft thesis 4.3",
        ("ElectionsHaveMajorities", "ElectionSafety", *_COMMITTED),
    ),
    (membership.truncations_keep_the_newer_configuration, "Raft thesis 4.1", ("ConfigurationsAreTheLogs",)),
    (membership.configurations_are_cut_before_the_log, "Raftka 69d27e6e", ("ConfigurationsAreTheLogs",)),
    (membership.learners_are_promoted_by_what_they_have_written, "Raft thesis 4.2.1", ("LearnersAreCaughtUp",)),
    (
        membership.moves_finish_whatever_their_revision,
        "RFC 0019 section 6",
        ("LeavingReplicas", "Convergence", *_COMMITTED),
    ),
    (
        membership.replicas_leave_by_tables_that_nobody_has_confirmed,
        "RFC 0012; counterexample 41",
        ("LeavingReplicas", "PlacedReplicas"),
    ),
    (membership.replicas_leave_whatever_their_logs_say, "RFC 0019 section 5", ("LeavingReplicas",)),
    (
        membership.replicas_that_have_left_still_grant_votes,
        "RFC 0019 section 5",
        ("GravestonesAreTrue", "VotesAreDurable", "VoteOnce", "Positions", "TermsAreDurable"),
    ),
    (
        membership.gravestones_are_empty,
        "RFC 0019 section 5",
        ("GravestonesAreTrue", "VoteOnce", "Positions", "TermsAreDurable"),
    ),
    (membership.moves_leave_out_a_replica, "RFC 0019, L6", ("Convergence",)),
    (membership.moves_need_no_level, "KIP-584; RFC 0018", ("FormatsHaveLevels",)),
)
_BROKERS = (
    (brokers.retired_directories_are_linked, "RFC 0020 section 2", ("RetiredNeverCount",)),
    (brokers.epochs_are_not_compared, "RFC 0020 section 2", ("RemovedNeverReturn", "RetiredNeverCount")),
    (brokers.removed_brokers_register, "RFC 0020 section 1", ("RemovedNeverReturn", "RetiredNeverCount")),
)
_LAG = (
    (lag.lag_counts_what_nobody_may_read_yet, "RFC 0009, G5", ("LagIsVisible",)),
    (lag.deposed_coordinators_report_lag, "RFC 0009, G5", ("LagIsVisible",)),
    (lag.unknown_ends_are_taken_for_read, "RFC 0009, G5", ("LagIsVisible",)),
)
_TRANSACTIONS = (
    (
        transactions.stable_offset_passes_what_has_a_marker,
        "RFC 0021, X4",
        ("StableOffsets", "aborted-read", "torn-read", "precommitted-read", "nonmonotonic-lso"),
    ),
    (transactions.markers_are_not_judged_at_their_place, "RFC 0021, X2", ("MarkersEndTransactions",)),
    (transactions.aborted_records_are_shown, "RFC 0021, X6", ("aborted-read",)),
    (
        transactions.decisions_are_acted_on_before_they_are_committed,
        "RFC 0021 section 7, X1",
        ("MarkersFollowDecisions", "NothingOpenOnceComplete"),
    ),
    (transactions.transactions_are_complete_before_all_markers, "RFC 0021, X3", ("NothingOpenOnceComplete",)),
    (
        transactions.committed_transactions_have_rows,
        "RFC 0021, X6",
        ("RowsAreAbortMarkers", "unseen", "poll-skip", "int-poll-skip", *_LOST),
    ),
    (transactions.former_members_commit_in_transactions, "RFC 0021 section 8, X5", ("doubled-input",)),
)


def _bugs(
    area: str,
    lines: tuple[tuple[Plant, str, tuple[str, ...]], ...],
    *,
    living: bool = False,
    transactional: bool = False,
    compacted: bool = False,
) -> tuple[KnownBug, ...]:
    return tuple(
        KnownBug(plant, area, source, objectors, living, transactional, compacted) for plant, source, objectors in lines
    )


_COMPACTION = (
    (
        compaction.states_follow_from_compacted_entries,
        "RFC 0022 section 7",
        ("LagDrains", "ProducerSequences", "MarkersEndTransactions", "Convergence", *_COMMITTED),
    ),
    (compaction.marks_stay_where_the_state_is_ahead, "Raftka 7a0a2c3f", ("LogMatching", "Convergence")),
    (compaction.marks_are_forgotten, "RFC 0022 section 7", ("LogMatching", "Convergence")),
    (
        compaction.passes_go_on_behind_their_end,
        "Raftka 7a0a2c3f",
        ("RemovedRecordsAreSuperseded", "LogMatching", "Convergence"),
    ),
    (
        compaction.passes_remove_the_newest_record,
        "RFC 0022, C1",
        ("RemovedRecordsAreSuperseded", "broken-table", *_SKIPPED),
    ),
    (compaction.passes_stamp_another_epoch, "RFC 0022, C2", ("KeptRecordsAreOriginal",)),
    (compaction.deletes_go_where_the_leader_is_clean, "RFC 0022, C4", ("DeletedRecordsAreGone",)),
    (compaction.rows_outlive_their_markers, "RFC 0021, X6; RFC 0022 section 3", ("RowsAreAbortMarkers",)),
)


BUGS = (
    *_bugs("elections", _ELECTIONS),
    *_bugs("agreement", _AGREEMENT),
    *_bugs("rounds", _ROUNDS),
    *_bugs("replication", _REPLICATION),
    *_bugs("recovery", _RECOVERY),
    *_bugs("leadership transfer", _LEADERSHIP_TRANSFER),
    *_bugs("disks that hang", _GREY_FAILURES),
    *_bugs("links", _LINKS),
    *_bugs("members of groups", _MEMBERSHIP, living=True),
    *_bugs("brokers", _BROKERS, living=True),
    *_bugs("log start", _LOG_START),
    *_bugs("storage: writes", _STORAGE_WRITES),
    *_bugs("storage: recovery", _STORAGE_RECOVERY),
    *_bugs("log compaction", _COMPACTION, transactional=True, compacted=True),
    *_bugs("Kafka: produce", _PRODUCE),
    *_bugs("Kafka: idempotence", _IDEMPOTENCE),
    *_bugs("Kafka: fetch", _FETCH),
    *_bugs("Kafka: groups", _GROUPS),
    *_bugs("Kafka: transactions", _TRANSACTIONS, transactional=True),
    *_bugs("Kafka: lag of groups", _LAG),
    *_bugs("raft0", _ADMIN),
    *_bugs("events", _EVENTS),
    *_bugs("counts", _COUNTS),
)
# What random search must find.
HUNTED = tuple(bug for bug in BUGS if bug.objectors)

_BY_NAME = {bug.name: bug for bug in BUGS}


def bugs_named(*names: str) -> tuple[KnownBug, ...]:
    """Return these bugs, in this order; KeyError if there is none of a name."""
    return tuple(_BY_NAME[name] for name in names)


def plant(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Plant these bugs until the patch is undone; KeyError if there is none of a name."""
    for bug in bugs_named(*names):
        bug.plant(patch)
