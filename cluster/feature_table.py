"""Which level of each feature is in force (RFC 0018). Written by `controller_tables` only."""

from collections.abc import Callable, Mapping

from cluster.commands import BrokerRecord, SetFeature
from cluster.errors import FeatureLevelError, FeatureUpdateError, InvalidTopicConfigError
from model.features import (
    COMPACTED_TOPICS_LEVEL,
    COMPACTION,
    KNOWN,
    LOWERED_TO,
    MEMBERSHIP,
    PLACEMENTS_LEVEL,
    lacking,
)
from model.topic_config import THROTTLE_KEYS, keys_of_compaction


class FeatureTable:
    """Levels by name. A feature that was never set is at 0.

    Attributes:
        epoch: How often a level has changed: clients tell a newer answer from an older one by it.
    """

    def __init__(self) -> None:
        self._levels: dict[str, int] = {}
        self._listeners: list[Callable[[], None]] = []
        self.epoch = 0

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change; it must not block."""
        self._listeners.append(listener)

    def level(self, name: str) -> int:
        """Return the level in force."""
        return self._levels.get(name, 0)

    def all(self) -> dict[str, int]:
        """Return all levels above 0, in order of name."""
        return dict(sorted(self._levels.items()))

    def require(self, name: str, level: int, what: str) -> None:
        """Raise FeatureLevelError unless a feature is at a level, or above it; `what` needs that."""
        current = self.level(name)
        if current < level:
            raise FeatureLevelError(
                f"{what} need {name} at level {level}, and the cluster uses it at level {current}:"
                " raise it with `raftka cluster features upgrade` once all brokers have it"
            )

    def require_for_topic(self, configs: Mapping[str, str]) -> None:
        """Raise an error if a topic is to have what brokers of an older version could not apply.

        Raises:
            FeatureLevelError: Throttled replicas.
            InvalidTopicConfigError: What came with compacted topics. It is the code that clients know for that.
        """
        if not THROTTLE_KEYS.isdisjoint(configs):
            self.require(MEMBERSHIP, PLACEMENTS_LEVEL, "throttled replicas")
        if keys := keys_of_compaction(configs):
            try:
                self.require(COMPACTION, COMPACTED_TOPICS_LEVEL, f"{', '.join(keys)}: compacted topics")
            except FeatureLevelError as error:
                raise InvalidTopicConfigError(str(error)) from error

    def apply_set(self, command: SetFeature, highest: Mapping[int, Mapping[str, int]]) -> None:
        """Change a level. `highest` is what brokers have, as for `check`.

        Raises:
            FeatureUpdateError: It must not be lowered, or a broker cannot go so far.
        """
        self.check(command.name, command.level, highest)
        # F1 of RFC 0018: what was written at a level is never met at a lower one.
        current = self.level(command.name)
        assert command.level >= min(current, LOWERED_TO.get(command.name, current))
        if command.level != current:
            self._levels[command.name] = command.level
            self.epoch += 1
            self.tell()

    def check(self, name: str, level: int, highest: Mapping[int, Mapping[str, int]]) -> None:
        """Raise FeatureUpdateError if the feature must not be at that level with these brokers.

        Args:
            name: The feature.
            level: Where it is to be.
            highest: By node id, the highest level of each feature that a broker has.
        """
        current = self.level(name)
        if level < min(current, LOWERED_TO.get(name, current)):
            below = f" below {LOWERED_TO[name]}" if name in LOWERED_TO else ""
            raise FeatureUpdateError(f"{name[:100]} is at level {current}, and a level is never lowered{below}")
        without = {node: levels.get(name, 0) for node, levels in highest.items() if levels.get(name, 0) < level}
        if without and name not in KNOWN and current == 0 and not any(name in levels for levels in highest.values()):
            raise FeatureUpdateError(
                f"no broker has a feature {name[:100]!r}: `raftka cluster features list` shows those that there are"
            )
        if without:
            told = ", ".join(f"broker {node} has {most}" for node, most in without.items())
            raise FeatureUpdateError(
                f"{name[:100]} cannot be at level {level}: {told}; start a newer version on these brokers first"
            )

    def check_direction(self, name: str, level: int, *, is_lowering: bool) -> None:
        """Raise FeatureUpdateError if a level would be lowered by who asks to raise it, or raised the other way round.

        It is for the request of an administrator, who may not know which level is in force.
        """
        current = self.level(name)
        if level < current and not is_lowering:
            raise FeatureUpdateError(
                f"{name[:100]} is at level {current}: lower it with `raftka cluster features downgrade`"
            )
        if level > current and is_lowering:
            raise FeatureUpdateError(f"{name[:100]} is at level {current}, and is not lowered to level {level}")

    def check_broker(self, broker: BrokerRecord) -> None:
        """Raise FeatureUpdateError unless a broker can work at all levels in force (F2 of RFC 0018)."""
        self.check_levels(broker.features, broker.node_id)

    def check_levels(self, highest: Mapping[str, int], node_id: int) -> None:
        """Raise FeatureUpdateError unless a broker that has these highest levels can work at all levels in force."""
        if missing := lacking(self.all(), highest):
            raise FeatureUpdateError(
                f"the cluster uses {', '.join(missing)}, which the version of broker {node_id} does not have: "
                "start a newer version there"
            )

    def replace(self, levels: Mapping[str, int], epoch: int) -> None:
        """Let these be all levels, and tell nobody: `tell`, once the other tables are of the same moment."""
        self._levels = dict(levels)
        self.epoch = epoch

    def tell(self) -> None:
        """Call the listeners."""
        for listener in self._listeners:
            listener()
