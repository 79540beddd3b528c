"""Which configuration is in force: the newest in the log, committed or not (thesis 4.1, RFC 0019 section 2).

A replica uses a configuration from the moment in which its entry gets its place in the log. If a truncation removes
the entry, the one before is in force again.
"""

from collections.abc import Callable

from model.ids import NO_INDEX, Index
from raft.group_configuration import GroupConfiguration


class ConfigurationLog:
    """The configurations that a truncation or a snapshot may still need, oldest first.

    Attributes:
        on_change: Called when another configuration has come into force; the replica that uses them sets it.
    """

    def __init__(self, base: GroupConfiguration) -> None:
        """Begin with what the group was created with."""
        self._created_with = base
        self._noted: list[tuple[Index, GroupConfiguration]] = [(NO_INDEX, base)]
        self._committed = NO_INDEX
        self.on_change: Callable[[], object] = lambda: None

    @property
    def in_force(self) -> GroupConfiguration:
        """The newest configuration in the log."""
        return self._noted[-1][1]

    @property
    def index(self) -> Index:
        """Where it is in the log, or the last entry of the snapshot that has it; 0: the group was created with it."""
        return self._noted[-1][0]

    @property
    def is_committed(self) -> bool:
        """Whether no truncation can remove the one in force."""
        return self.index <= self._committed

    @property
    def possible(self) -> list[GroupConfiguration]:
        """The newest one that is known to be committed, and those behind it: the log may still end with any of them.

        After a restart a replica does not know what is committed, and older ones are among them.
        """
        first = max(place for place, (index, _) in enumerate(self._noted) if index <= self._committed or place == 0)
        return [configuration for _, configuration in self._noted[first:]]

    def changed_until(self, index: Index) -> GroupConfiguration | None:
        """Return what was in force at `index`, for a snapshot; None: what the group was created with.

        Those before it are forgotten. `index` is committed, and not below that of an earlier call.
        """
        while len(self._noted) > 1 and self._noted[1][0] <= index:
            self._noted.pop(0)
        found = self._noted[0][1]
        return None if found is self._created_with else found

    def note(self, index: Index, configuration: GroupConfiguration) -> None:
        """An entry with a configuration got its place in the log. What a snapshot includes already is skipped."""
        if index > self.index:
            self._noted.append((index, configuration))
            self.on_change()

    def truncate(self, first_removed: Index) -> None:
        """The entries from `first_removed` on are gone; none of them is committed."""
        before = self.in_force
        while len(self._noted) > 1 and self._noted[-1][0] >= first_removed:
            self._noted.pop()
        if self.in_force is not before:
            self.on_change()

    def commit(self, index: Index) -> None:
        """Everything up to `index` is committed."""
        self._committed = max(self._committed, index)

    def restore(self, index: Index, configuration: GroupConfiguration | None) -> None:
        """Begin anew with what a snapshot says, as of its entry `index`. The entries behind it are noted again.

        Args:
            index: The last entry that the snapshot includes.
            configuration: None: what the group was created with.
        """
        before = self.in_force
        if configuration is None:
            self._noted = [(NO_INDEX, self._created_with)]
        else:
            self._noted = [(index, configuration)]
        self.commit(index)
        if self.in_force is not before:
            self.on_change()
