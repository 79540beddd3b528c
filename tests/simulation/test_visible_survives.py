"""Who must have what consumers could see: leaders of later terms, whenever they are elected."""

from types import SimpleNamespace
from typing import Any

import pytest

from model.ids import DirectoryId, GroupId, NodeId, Replica
from raft.replica_state import Role
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import InvariantBrokenError
from tests.simulation.invariants.visible_survives import VisibleSurvives
from tests.simulation.world.power_losses import PowerLosses
from tests.simulation.world.replica_view import Ghost

_GROUP = GroupId("orders/0")


def _leader(term: int, ghosts: list[Ghost], visible: int) -> Any:
    return SimpleNamespace(
        group=_GROUP,
        now=SimpleNamespace(role=Role.LEADER, term=term, visible=visible),
        entries=ghosts,
        at=lambda index: ghosts[index - 1],
        chain_at=lambda index: ghosts[index - 1].chain,
    )


def _on(node_id: int) -> Replica:
    return Replica(NodeId(node_id), DirectoryId(f"d{node_id}"))


@pytest.fixture
def entries() -> list[Ghost]:
    return [SimpleNamespace(index=index, chain=b"%d" % index) for index in (1, 2, 3)]  # type: ignore[misc]


@pytest.fixture
def invariant(entries: list[Ghost]) -> VisibleSurvives:
    """It has seen the leader of term 9 show three entries."""
    invariant = VisibleSurvives(History({_GROUP: (frozenset(map(_on, (1, 2, 3))),)}))
    nothing: Any = SimpleNamespace(role=Role.FOLLOWER, term=8, visible=0)
    invariant.on_moved(_leader(9, entries, 3), nothing)
    return invariant


def test_a_candidate_that_wins_its_old_term_late_need_not_have_it(invariant: VisibleSurvives, entries: list[Ghost]):
    """It was paused before it read the votes: seed 10832, in which the leader of the next term had shown two entries."""
    invariant.on_elected(_leader(8, entries[:1], 1))


def test_the_leader_of_a_later_term_must_have_it(invariant: VisibleSurvives, entries: list[Ghost]):
    with pytest.raises(InvariantBrokenError, match="it leads without entry 3"):
        invariant.on_elected(_leader(10, entries[:2], 2))


def _replica(node_id: int, ghosts: list[Ghost], flushed: int) -> Any:
    chain_at: Any = {0: b""} | {ghost.index: ghost.chain for ghost in ghosts}
    now = SimpleNamespace(flushed=flushed, visible=len(ghosts))
    own = {"node_id": node_id, "replica": _on(node_id)}
    return SimpleNamespace(**own, group=_GROUP, now=now, entries=ghosts, chain_at=chain_at.__getitem__)


def test_what_is_shown_after_a_power_loss_has_taken_it_binds_nobody(entries: list[Ghost]):
    """The follower's answer was still on its way: seed 13193."""
    leader, follower = _replica(1, entries, 3), _replica(2, entries, 2)
    replicas = [leader, follower, _replica(3, [], 0)]
    losses = PowerLosses(History({_GROUP: (frozenset(map(_on, (1, 2, 3))),)}))
    assert losses.shown_late(leader, 1, replicas) == []
    assert losses.lost(follower, replicas) == []
    assert losses.shown_late(leader, 1, replicas) == entries[2:]
    assert losses.shown_late(leader, 4, replicas) == []


def test_what_no_majority_has_ever_held_is_not_taken_by_a_power_loss(entries: list[Ghost]):
    leader, follower = _replica(1, entries, 3), _replica(2, entries[:2], 1)
    replicas = [leader, follower, _replica(3, [], 0)]
    losses = PowerLosses(History({_GROUP: (frozenset(map(_on, (1, 2, 3))),)}))
    losses.lost(follower, replicas)
    assert losses.shown_late(leader, 1, replicas) == entries[1:2]
