"""Options of brokers that change while they run: what raft0's leader asks of the table of options, which lies above.

The cluster keeps texts (`option_table`). Which keys there are, what they may be, and what follows from a change, the
broker's own table of options says; it is passed in as `DynamicOptions`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from cluster.errors import InvalidBrokerConfigError
from cluster.option_table import OptionTable
from cluster.topic_changes import ConfigChange, ConfigOperation
from model.config_definition import InvalidConfigError, shorten
from model.ids import NodeId


class DynamicOptions(Protocol):
    """The options of this broker. `for_all` and `own` are what is set for all brokers, and on one of them."""

    def key_of(self, name: str) -> str:
        """Return the key that a name stands for.

        Raises:
            InvalidConfigError: No option has it, or its option is read only at the start.
        """
        ...

    def normalized(self, key: str, value: str) -> str:
        """Return a value as it is kept: in one spelling, and not longer than that.

        Raises:
            InvalidConfigError: Another type, or out of range.
        """
        ...

    def check(self, for_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Raise InvalidConfigError if the values do not fit together, this broker's file below them."""
        ...

    def apply(self, for_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Let them be in force on this broker; it does not block. What this version cannot use it passes over."""
        ...


class FixedOptions:
    """The `DynamicOptions` of a node that has none: everything is as it was at the start."""

    def key_of(self, name: str) -> str:
        """Refuse it."""
        raise InvalidConfigError(f"{shorten(name)}: this broker has no options that change while it runs")

    def normalized(self, key: str, value: str) -> str:
        """Return the value."""
        return value

    def check(self, for_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Find nothing wrong."""

    def apply(self, for_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Change nothing."""


def altered_options(
    table: OptionTable,
    node: NodeId | None,
    changes: Sequence[ConfigChange],
    options: DynamicOptions,
    *,
    replaces_all: bool,
) -> dict[str, str]:
    """Return what is set on a broker, or for all (None), after the changes.

    Args:
        table: As it is now.
        node: The broker.
        changes: At most one per key.
        options: What may be set.
        replaces_all: Begin with nothing set (AlterConfigs) instead of what is.

    Raises:
        InvalidBrokerConfigError: A key that is unknown, not dynamic or named twice; another operation than set and
            delete; a value that is refused, or does not fit to the others.
    """
    before = table.of(node)
    configs = {} if replaces_all else dict(before)
    named: set[str] = set()
    try:
        for change in changes:
            # What a newer version has set can be deleted by one that does not know it.
            is_left = change.operation == ConfigOperation.DELETE and change.key in before
            key = change.key if is_left else options.key_of(change.key)
            if key in named:
                raise InvalidBrokerConfigError(f"{key} is named twice")
            named.add(key)
            value = _changed_value(key, change)
            if value is None:
                configs.pop(key, None)
            else:
                configs[key] = options.normalized(key, value)
        if node is None:
            for own in ({}, *(table.of(each) for each in table.nodes())):
                options.check(configs, own)
        else:
            options.check(table.of(None), configs)
    except InvalidConfigError as error:
        raise InvalidBrokerConfigError(str(error)) from error
    return configs


def _changed_value(key: str, change: ConfigChange) -> str | None:
    match change.operation:
        case ConfigOperation.DELETE:
            return None
        case ConfigOperation.SET if change.value is not None:
            return change.value
        case ConfigOperation.SET:
            raise InvalidBrokerConfigError(f"{key}: a value is missing")
        case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
            raise InvalidBrokerConfigError(f"{key} is no list: nothing can be appended or subtracted")
        case _:
            raise InvalidBrokerConfigError(f"{key}: unknown operation {change.operation}")
