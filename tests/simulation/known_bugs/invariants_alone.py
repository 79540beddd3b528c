"""A checker must be able to fail: for every invariant a bug to which it objects when it is the only one that looks.

In a campaign the invariants look at the same run one after the other, and one that is never the first to object would
never be seen to fail.
"""

from tests.simulation import invariants
from tests.simulation.invariants.invariant import Invariant

# By the bug's name.
ALONE: tuple[tuple[type[Invariant], str], ...] = (
    (invariants.ElectionSafety, "one_vote_elects"),
    (invariants.VoteOnce, "follower_forgets_its_vote"),
    (invariants.VotesAreDurable, "vote_is_not_synced"),
    (invariants.TermsAreDurable, "terms_are_acted_in_before_they_are_durable"),
    (invariants.LogMatching, "conflict_is_kept"),
    (invariants.LeaderAppendOnly, "new_leader_cuts_its_tail"),
    (invariants.Truncation, "cut_goes_below_commit"),
    (invariants.CommitRule, "old_terms_commit_by_counting"),
    (invariants.BoundedRunahead, "producers_are_never_held"),
    (invariants.MatchesAreTrue, "written_counts_as_fsynced"),
    (invariants.MatchedIsTheLeaders, "match_outlives_its_leader"),
    (invariants.AnswersWereAskedFor, "answers_of_older_leaderships_count"),
    (invariants.StateMachineSafety, "follower_commits_what_was_not_matched"),
    (invariants.LeaderCompleteness, "votes_go_to_any_log"),
    (invariants.CommittedIsDurable, "minority_commits"),
    (invariants.FlushedIsDurable, "fsync_is_skipped"),
    (invariants.FlushedSurvives, "last_entry_is_dropped_at_the_open"),
    (invariants.Positions, "follower_commits_before_its_fsync"),
    (invariants.OffsetsAreDense, "offsets_are_given_away_twice"),
    (invariants.OpenedLogsAreWhole, "torn_tail_is_accepted"),
    (invariants.SegmentsCoverTheLog, "one_segment_too_many_goes"),
    (invariants.LogStarts, "each_replica_deletes_by_itself"),
    (invariants.Deletions, "retention_keeps_only_the_newest_segment"),
    (invariants.PlacedReplicas, "deletion_takes_the_first_topic"),
    (invariants.RegistrationsAreCurrent, "registrations_are_not_confirmed"),
    (invariants.SnapshotsAreTrue, "snapshot_is_later_than_its_state"),
    (invariants.EqualTables, "restored_tables_forget_the_next_producer_id"),
    (invariants.TablesWithinBounds, "commits_under_way_take_no_room"),
    (invariants.VisibleSurvives, "visible_is_what_the_leader_wrote"),
    (invariants.AcknowledgedWrites, "quorum_write_is_answered_at_once"),
    (invariants.ProducerSequences, "duplicates_are_forgotten_with_the_leader"),
    (invariants.QuorumWritesWait, "relaxed_writes_show_the_quorum_writes_before_them"),
    (invariants.ReadsAgree, "fetch_is_not_bounded"),
    (invariants.AnswersAreWhole, "a_removed_segment_is_sent_as_zeros"),
    (invariants.ReadsAreLinearizable, "leader_serves_before_its_barrier"),
    (invariants.HungLeadersLeave, "only_fsyncs_are_watched"),
    (invariants.ToldEndsWereVisible, "latest_is_the_end_of_the_leaders_log"),
    (invariants.LagDrains, "followers_that_lack_little_are_left_alone"),
    (invariants.FailuresHaveReasons, "refused_descriptor_is_a_broken_disk"),
    (invariants.DirtyFilesStayOpen, "dirty_segments_may_be_closed"),
    (invariants.EventsTellElections, "elections_are_told_before_office"),
    (invariants.LostAndBackAlternate, "losses_of_both_directions_are_told"),
    (invariants.LagIsVisible, "unknown_ends_are_taken_for_read"),
    (invariants.CountsAreTrue, "elected_is_counted_as_led"),
    (invariants.CountersGrow, "counters_begin_again_with_each_leader"),
    (invariants.ConfigurationsOneByOne, "two_configurations_are_under_way"),
    (invariants.ElectionsHaveMajorities, "joint_configurations_elect_by_one_set"),
    (invariants.ConfigurationsAreTheLogs, "truncations_keep_the_newer_configuration"),
    (invariants.LearnersAreCaughtUp, "learners_are_promoted_by_what_they_have_written"),
    (invariants.GravestonesAreTrue, "gravestones_are_empty"),
    (invariants.LeavingReplicas, "moves_finish_whatever_their_revision"),
    (invariants.FormatsHaveLevels, "moves_need_no_level"),
)
