"""What must hold in every simulated run, one file each; `ALL` lists them.

Every invariant sees what each replica does, after each step of its node, and raises `InvariantBrokenError`.
"""

from collections.abc import Callable

from tests.simulation.clients.history import History
from tests.simulation.invariants.acknowledged_writes import AcknowledgedWrites
from tests.simulation.invariants.answers_are_whole import AnswersAreWhole
from tests.simulation.invariants.answers_were_asked_for import AnswersWereAskedFor
from tests.simulation.invariants.bounded_runahead import BoundedRunahead
from tests.simulation.invariants.commit_rule import CommitRule
from tests.simulation.invariants.committed_is_durable import CommittedIsDurable
from tests.simulation.invariants.configurations_are_the_logs import ConfigurationsAreTheLogs
from tests.simulation.invariants.configurations_follow_the_steps import ConfigurationsFollowTheSteps
from tests.simulation.invariants.configurations_one_by_one import ConfigurationsOneByOne
from tests.simulation.invariants.counters_grow import CountersGrow
from tests.simulation.invariants.counts_are_true import CountsAreTrue
from tests.simulation.invariants.deleted_records_are_gone import DeletedRecordsAreGone
from tests.simulation.invariants.deletions import Deletions
from tests.simulation.invariants.dirty_files_stay_open import DirtyFilesStayOpen
from tests.simulation.invariants.election_safety import ElectionSafety
from tests.simulation.invariants.elections_have_majorities import ElectionsHaveMajorities
from tests.simulation.invariants.equal_tables import EqualTables
from tests.simulation.invariants.events_tell_elections import EventsTellElections
from tests.simulation.invariants.failures_have_reasons import FailuresHaveReasons
from tests.simulation.invariants.flushed_is_durable import FlushedIsDurable
from tests.simulation.invariants.flushed_survives import FlushedSurvives
from tests.simulation.invariants.formats_have_levels import FormatsHaveLevels
from tests.simulation.invariants.gravestones_are_true import GravestonesAreTrue
from tests.simulation.invariants.hung_leaders_leave import HungLeadersLeave
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.invariants.kept_records_are_original import KeptRecordsAreOriginal
from tests.simulation.invariants.lag_drains import LagDrains
from tests.simulation.invariants.lag_is_visible import LagIsVisible
from tests.simulation.invariants.leader_append_only import LeaderAppendOnly
from tests.simulation.invariants.leader_completeness import LeaderCompleteness
from tests.simulation.invariants.learners_are_caught_up import LearnersAreCaughtUp
from tests.simulation.invariants.leaving_replicas import LeavingReplicas
from tests.simulation.invariants.log_matching import LogMatching
from tests.simulation.invariants.log_starts import LogStarts
from tests.simulation.invariants.lost_and_back_alternate import LostAndBackAlternate
from tests.simulation.invariants.markers_end_transactions import MarkersEndTransactions
from tests.simulation.invariants.markers_follow_decisions import MarkersFollowDecisions
from tests.simulation.invariants.matched_is_the_leaders import MatchedIsTheLeaders
from tests.simulation.invariants.matches_are_true import MatchesAreTrue
from tests.simulation.invariants.nothing_open_once_complete import NothingOpenOnceComplete
from tests.simulation.invariants.offsets_are_dense import OffsetsAreDense
from tests.simulation.invariants.opened_logs_are_whole import OpenedLogsAreWhole
from tests.simulation.invariants.placed_replicas import PlacedReplicas
from tests.simulation.invariants.positions import Positions
from tests.simulation.invariants.producer_sequences import ProducerSequences
from tests.simulation.invariants.quorum_writes_wait import QuorumWritesWait
from tests.simulation.invariants.reads_agree import ReadsAgree
from tests.simulation.invariants.reads_are_linearizable import ReadsAreLinearizable
from tests.simulation.invariants.registrations_are_current import RegistrationsAreCurrent
from tests.simulation.invariants.removed_never_return import RemovedNeverReturn
from tests.simulation.invariants.removed_records_are_superseded import RemovedRecordsAreSuperseded
from tests.simulation.invariants.retired_never_count import RetiredNeverCount
from tests.simulation.invariants.rows_are_abort_markers import RowsAreAbortMarkers
from tests.simulation.invariants.segments_cover_the_log import SegmentsCoverTheLog
from tests.simulation.invariants.snapshots_are_true import SnapshotsAreTrue
from tests.simulation.invariants.stable_offsets import StableOffsets
from tests.simulation.invariants.state_machine_safety import StateMachineSafety
from tests.simulation.invariants.tables_within_bounds import TablesWithinBounds
from tests.simulation.invariants.terms_are_durable import TermsAreDurable
from tests.simulation.invariants.told_ends_were_visible import ToldEndsWereVisible
from tests.simulation.invariants.truncation import Truncation
from tests.simulation.invariants.visible_survives import VisibleSurvives
from tests.simulation.invariants.vote_once import VoteOnce
from tests.simulation.invariants.votes_are_durable import VotesAreDurable

ALL: tuple[Callable[[History], Invariant], ...] = (
    ElectionSafety,
    VoteOnce,
    VotesAreDurable,
    TermsAreDurable,
    LogMatching,
    LeaderAppendOnly,
    Truncation,
    CommitRule,
    BoundedRunahead,
    MatchesAreTrue,
    MatchedIsTheLeaders,
    AnswersWereAskedFor,
    StateMachineSafety,
    LeaderCompleteness,
    CommittedIsDurable,
    FlushedIsDurable,
    FlushedSurvives,
    Positions,
    OffsetsAreDense,
    OpenedLogsAreWhole,
    SegmentsCoverTheLog,
    KeptRecordsAreOriginal,
    RemovedRecordsAreSuperseded,
    DeletedRecordsAreGone,
    LogStarts,
    Deletions,
    PlacedReplicas,
    RegistrationsAreCurrent,
    SnapshotsAreTrue,
    EqualTables,
    TablesWithinBounds,
    VisibleSurvives,
    AcknowledgedWrites,
    ProducerSequences,
    MarkersEndTransactions,
    MarkersFollowDecisions,
    NothingOpenOnceComplete,
    RowsAreAbortMarkers,
    StableOffsets,
    QuorumWritesWait,
    ReadsAgree,
    AnswersAreWhole,
    ReadsAreLinearizable,
    ToldEndsWereVisible,
    LagDrains,
    HungLeadersLeave,
    FailuresHaveReasons,
    DirtyFilesStayOpen,
    EventsTellElections,
    LostAndBackAlternate,
    LagIsVisible,
    CountsAreTrue,
    CountersGrow,
    ConfigurationsOneByOne,
    ConfigurationsFollowTheSteps,
    ElectionsHaveMajorities,
    ConfigurationsAreTheLogs,
    LearnersAreCaughtUp,
    GravestonesAreTrue,
    LeavingReplicas,
    FormatsHaveLevels,
    RetiredNeverCount,
    RemovedNeverReturn,
)
