"""All rows that are proven in the simulator. With each planted bug that a row names, its proof must fail."""

from tests.simulation.known_bugs.table import bugs_named
from tests.simulation.rows import hand_over, latency, levels, one_path, transfers
from tests.simulation.rows.row import Row

ROWS = (
    Row(
        "P1",
        "two consistency levels, and no acknowledgement at all",
        levels.prove_three_levels,
        bugs_named("every_item_is_quorum", "quorum_write_is_answered_at_once"),
    ),
    Row(
        "P2",
        "quorum_ack ends once a majority has fsynced",
        levels.prove_quorum_waits_for_a_flushed_majority,
        bugs_named("quorum_write_is_answered_at_once", "followers_are_not_asked_to_flush", "commit_needs_everybody"),
    ),
    Row(
        "P3",
        "leader_ack ends once the leader has written",
        levels.prove_leader_ack_waits_for_the_write_only,
        bugs_named("every_item_is_quorum", "leader_ack_precedes_the_write"),
    ),
    Row(
        "P4",
        "quorum data is visible with the fsync of a majority",
        levels.prove_quorum_data_is_visible_with_the_fsync_of_a_majority,
        bugs_named("followers_are_not_asked_to_flush", "commit_needs_everybody"),
    ),
    Row(
        "P5",
        "relaxed data is visible once a majority has written it",
        levels.prove_relaxed_data_is_visible_once_written_on_a_majority,
        bugs_named("visible_is_commit", "relaxed_writes_show_the_quorum_writes_before_them"),
    ),
    Row("P6", "one path for all levels", one_path.prove_one_path, bugs_named("relaxed_rounds_are_left_to_recovery")),
    Row(
        "P7",
        "dispatch follows the leader's write and not its fsync",
        one_path.prove_dispatch_follows_the_write_and_not_the_flush,
        bugs_named("dispatch_waits_for_the_flush", "dispatch_precedes_the_write"),
    ),
    Row(
        "P8",
        "requests in flight to one follower are bounded",
        one_path.prove_the_window_bounds_requests_in_flight,
        bugs_named("the_window_is_wide"),
    ),
    Row(
        "P9",
        "mixed levels cause no latency spikes",
        latency.prove_mixed_levels_cause_no_spikes,
        bugs_named("every_item_is_quorum"),
    ),
    Row(
        "P11",
        "a request is built once and never read back",
        one_path.prove_a_request_is_built_once_and_never_read_back,
        bugs_named("a_request_per_follower", "rounds_are_read_back"),
    ),
    Row(
        "P16",
        "recovery runs whenever a follower is behind, and only then",
        hand_over.prove_recovery_runs_only_behind,
        bugs_named(
            "relaxed_rounds_are_left_to_recovery",
            "recovery_waits_a_second",
            "recovery_ends_with_an_answer_at_the_end_of_the_log",
        ),
    ),
    Row(
        "P18",
        "rounds and recovery never send twice, out of order, or with a gap",
        hand_over.prove_the_hand_over_storm,
        bugs_named(
            "rounds_do_not_heed_recovery",
            "recovery_does_not_wait_for_quiet",
            "each_refusal_begins_a_recovery",
            "hand_over_leaves_a_gap",
        ),
    ),
    Row(
        "P19",
        "both share the end of what was sent, and recovery hands over under load",
        hand_over.prove_the_shared_end_of_what_was_sent,
        bugs_named(
            "recovery_ends_with_an_answer_at_the_end_of_the_log",
            "rounds_skip_whom_recovery_has_served",
            "hand_over_sends_twice",
        ),
    ),
    Row(
        "P20",
        "a simpler leadership transfer",
        transfers.prove_a_transfer_waits_for_one_thing,
        bugs_named("transfers_wait_for_whoever_lags", "transfers_wait_an_election_timeout"),
    ),
    Row(
        "P21",
        "one round, each item answered at its own level",
        levels.prove_one_round_serves_both_levels,
        bugs_named("every_item_is_quorum", "quorum_write_is_answered_at_once"),
    ),
)
