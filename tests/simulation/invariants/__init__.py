"""What must hold in every simulated run, one file each; `ALL` lists them.

Every invariant is told what each replica does, after each step of its node, and raises `InvariantBrokenError`.
"""

from collections.abc import Callable

from tests.simulation.history import History
from tests.simulation.invariants.acknowledged_writes import AcknowledgedWrites
from tests.simulation.invariants.commit_rule import CommitRule
from tests.simulation.invariants.committed_is_durable import CommittedIsDurable
from tests.simulation.invariants.election_safety import ElectionSafety
from tests.simulation.invariants.flushed_survives import FlushedSurvives
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.invariants.leader_append_only import LeaderAppendOnly
from tests.simulation.invariants.leader_completeness import LeaderCompleteness
from tests.simulation.invariants.log_matching import LogMatching
from tests.simulation.invariants.log_starts import LogStarts
from tests.simulation.invariants.matches_are_true import MatchesAreTrue
from tests.simulation.invariants.offsets_are_dense import OffsetsAreDense
from tests.simulation.invariants.positions import Positions
from tests.simulation.invariants.reads_agree import ReadsAgree
from tests.simulation.invariants.reads_are_linearizable import ReadsAreLinearizable
from tests.simulation.invariants.snapshots_are_true import SnapshotsAreTrue
from tests.simulation.invariants.state_machine_safety import StateMachineSafety
from tests.simulation.invariants.truncation import Truncation
from tests.simulation.invariants.visible_survives import VisibleSurvives
from tests.simulation.invariants.vote_once import VoteOnce

ALL: tuple[Callable[[History], Invariant], ...] = (
    ElectionSafety,
    VoteOnce,
    LogMatching,
    LeaderAppendOnly,
    Truncation,
    CommitRule,
    MatchesAreTrue,
    StateMachineSafety,
    LeaderCompleteness,
    CommittedIsDurable,
    FlushedSurvives,
    Positions,
    OffsetsAreDense,
    LogStarts,
    SnapshotsAreTrue,
    VisibleSurvives,
    AcknowledgedWrites,
    ReadsAgree,
    ReadsAreLinearizable,
)
