"""What is set on brokers while they run, on one of them or on all (RFC 0018). Written by `controller_tables` only."""

from collections.abc import Callable, Mapping, Sequence

from cluster.commands import AlterBrokerConfigs
from model.ids import NodeId


class OptionTable:
    """Texts by key, for each broker that has some of its own and for all brokers together.

    Each text was checked by the leader that proposed it. What a broker makes of them is its own affair: one of another
    version may know fewer keys.
    """

    def __init__(self) -> None:
        # None stands for all brokers. Nobody is here with nothing set.
        self._configs: dict[int | None, dict[str, str]] = {}
        self._listeners: list[Callable[[], None]] = []

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change; it must not block."""
        self._listeners.append(listener)

    def of(self, node: NodeId | None) -> Mapping[str, str]:
        """Return what is set on one broker itself, or for all brokers where `node` is None."""
        return self._configs.get(node, {})

    def nodes(self) -> list[NodeId]:
        """Return the brokers that have something set of their own, in ascending order."""
        return sorted(NodeId(node) for node in self._configs if node is not None)

    def all(self) -> list[AlterBrokerConfigs]:
        """Return everything that is set: first for all brokers, then for each broker, in ascending order."""
        return [AlterBrokerConfigs(node, self._configs[node]) for node in (None, *self.nodes()) if self.of(node)]

    def with_altered(self, command: AlterBrokerConfigs) -> list[AlterBrokerConfigs]:
        """Return what `all` would be once the command is applied, in any order."""
        others = [each for each in self.all() if each.node != command.node]
        return [*others, command] if command.configs else others

    def apply_alter(self, command: AlterBrokerConfigs) -> None:
        """Replace what is set on one broker, or for all."""
        self._put(command)
        self.tell()

    def replace(self, options: Sequence[AlterBrokerConfigs]) -> None:
        """Let these be all that is set, and tell nobody: `tell`, once the other tables are of the same moment."""
        self._configs = {}
        for each in options:
            self._put(each)

    def clear(self) -> None:
        """Hold nothing, and tell nobody: what was here is read again."""
        self._configs = {}

    def _put(self, command: AlterBrokerConfigs) -> None:
        self._configs.pop(command.node, None)
        if command.configs:
            self._configs[command.node] = dict(sorted(command.configs.items()))

    def tell(self) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener()
