"""RFC 0018, and L10 of RFC 0019: what an older version cannot read is not written before all can."""

from collections.abc import Sequence

from cluster.commands import AlterPlacements, SetFeature, decode_command
from model.features import MEMBERSHIP, PLACEMENTS_LEVEL
from model.ids import RAFT0
from storage.entry import EntryKind
from tests.simulation.clients.history import History
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView


class FormatsHaveLevels(Invariant):
    """No log has a configuration, and raft0 no move, before the feature's level is committed."""

    def __init__(self, history: History) -> None:
        super().__init__(history)
        self._level = 0

    def on_committed(self, view: ReplicaView, new: Sequence[Ghost]) -> None:
        if view.group != RAFT0:
            return
        for ghost in new:
            command = decode_command(ghost.command) if ghost.command else None
            if isinstance(command, SetFeature) and command.name == MEMBERSHIP:
                self._level = max(self._level, command.level)
            if isinstance(command, AlterPlacements) and self._level < PLACEMENTS_LEVEL:
                self.violated(view, f"{command} is committed at level {self._level}")

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        for ghost in added:
            if ghost.kind is EntryKind.CONFIGURATION and self._level < PLACEMENTS_LEVEL:
                self.violated(view, f"{ghost} is written at level {self._level}")
