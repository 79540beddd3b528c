"""A checker must be able to fail: for every invariant a bug to which it objects when it is the only one that looks.

In a campaign the invariants look at the same run one after the other, and one that is never the first to object would
never be seen to fail.
"""

from tests.simulation import invariants
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.known_bugs import (
    admin,
    agreement,
    elections,
    fetch,
    grey_failures,
    groups,
    idempotence,
    log_start,
    produce,
    replication,
    storage_recovery,
    storage_writes,
)
from tests.simulation.known_bugs.known_bug import Plant

ALONE: tuple[tuple[type[Invariant], Plant], ...] = (
    (invariants.ElectionSafety, elections.one_vote_elects),
    (invariants.VoteOnce, elections.follower_forgets_its_vote),
    (invariants.VotesAreDurable, elections.vote_is_not_synced),
    (invariants.TermsAreDurable, elections.terms_are_acted_in_before_they_are_durable),
    (invariants.LogMatching, replication.conflict_is_kept),
    (invariants.LeaderAppendOnly, elections.new_leader_cuts_its_tail),
    (invariants.Truncation, replication.cut_goes_below_commit),
    (invariants.CommitRule, agreement.old_terms_commit_by_counting),
    (invariants.BoundedRunahead, replication.producers_are_never_held),
    (invariants.MatchesAreTrue, agreement.written_counts_as_fsynced),
    (invariants.MatchedIsTheLeaders, replication.match_outlives_its_leader),
    (invariants.AnswersWereAskedFor, agreement.answers_of_older_leaderships_count),
    (invariants.StateMachineSafety, replication.follower_commits_what_was_not_matched),
    (invariants.LeaderCompleteness, elections.votes_go_to_any_log),
    (invariants.CommittedIsDurable, agreement.minority_commits),
    (invariants.FlushedIsDurable, storage_writes.fsync_is_skipped),
    (invariants.FlushedSurvives, storage_recovery.last_entry_is_dropped_at_the_open),
    (invariants.Positions, replication.follower_commits_before_its_fsync),
    (invariants.OffsetsAreDense, produce.offsets_are_given_away_twice),
    (invariants.OpenedLogsAreWhole, storage_recovery.torn_tail_is_accepted),
    (invariants.SegmentsCoverTheLog, storage_writes.one_segment_too_many_goes),
    (invariants.LogStarts, log_start.each_replica_deletes_by_itself),
    (invariants.Deletions, log_start.retention_keeps_only_the_newest_segment),
    (invariants.PlacedReplicas, admin.deletion_takes_the_first_topic),
    (invariants.RegistrationsAreCurrent, admin.registrations_are_not_confirmed),
    (invariants.SnapshotsAreTrue, log_start.snapshot_is_later_than_its_state),
    (invariants.EqualTables, admin.restored_tables_forget_the_next_producer_id),
    (invariants.TablesWithinBounds, groups.commits_under_way_take_no_room),
    (invariants.VisibleSurvives, agreement.visible_is_what_the_leader_wrote),
    (invariants.AcknowledgedWrites, agreement.quorum_write_is_answered_at_once),
    (invariants.ProducerSequences, idempotence.duplicates_are_forgotten_with_the_leader),
    (invariants.QuorumWritesWait, agreement.relaxed_writes_show_the_quorum_writes_before_them),
    (invariants.ReadsAgree, fetch.fetch_is_not_bounded),
    (invariants.ReadsAreLinearizable, agreement.leader_serves_before_its_barrier),
    (invariants.HungLeadersLeave, grey_failures.only_fsyncs_are_watched),
    (invariants.ToldEndsWereVisible, fetch.latest_is_the_end_of_the_leaders_log),
    (invariants.LagDrains, replication.followers_that_lack_little_are_left_alone),
    (invariants.FailuresHaveReasons, storage_writes.refused_descriptor_is_a_broken_disk),
    (invariants.DirtyFilesStayOpen, storage_writes.dirty_segments_may_be_closed),
)
