"""What is set on this broker while it runs, over what it was started with (RFC 0018).

    set on this broker, set for all brokers, read at the start     of each key, the first that there is, is in force

raft0's tables keep the texts, and call `apply` when they have changed, also while they are read at a start. What this
version cannot use, a key or a value of another version, it passes over and logs.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from kafka_api.described_configs import ConfigSource, DescribedConfig, Synonym
from model.config_definition import InvalidConfigError, shorten
from raftka.broker.described_options import broker_configs, kind_of
from raftka.config import BrokerConfig, misfits
from raftka.config_options import (
    BY_KEY,
    DELETABLE,
    ConfigError,
    check_replication_factor,
    dynamic_option,
    parse_value,
    shown_value,
)

_logger = logging.getLogger("broker")
# Characters of a value; what an error repeats of it must fit into a response's string.
_TEXT_MAX = 100


class OptionsOfBroker(NamedTuple):
    """The options in force, and what was set: on this broker and for all, as far as this version can use it."""

    config: BrokerConfig
    own: Mapping[str, Any]
    for_all: Mapping[str, Any]


class BrokerOptions:
    """A `cluster.dynamic_options.DynamicOptions` over the table of options.

    Args:
        config: How the broker was started.
        brokers: Returns how many are in the cluster, at a broker that checks what is to be set.
    """

    def __init__(self, config: BrokerConfig, brokers: Callable[[], int]) -> None:
        self._started = config
        self._brokers = brokers
        self.in_force = OptionsOfBroker(config, {}, {})
        self._listeners: list[Callable[[OptionsOfBroker], None]] = []
        self._passed_over: set[str] = set()

    def add_listener(self, listener: Callable[[OptionsOfBroker], None]) -> None:
        """Call `listener` with what is in force after each change; it must not block."""
        self._listeners.append(listener)

    # -- DynamicOptions -----------------------------------------------------------------------------------------

    def key_of(self, name: str) -> str:
        """Return the key that a name stands for.

        Raises:
            InvalidConfigError: No option has it, or its option is read only at the start.
        """
        if name in DELETABLE:
            return name
        try:
            return dynamic_option(name).key
        except ConfigError as error:
            raise InvalidConfigError(str(error)) from None

    def normalized(self, key: str, value: str) -> str:
        """Return a value in one spelling.

        Raises:
            InvalidConfigError: Another type, or out of range; or the key may be deleted only.
        """
        if key in DELETABLE:
            raise InvalidConfigError(f"{key} can only be deleted: {DELETABLE[key]}")
        return shown_value(_parsed(key, value))

    def check(self, for_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Raise InvalidConfigError if the values do not fit together, this broker's start below them."""
        config = self._config_of(self._usable(for_all), self._usable(own))
        for _, why in misfits(config):
            raise InvalidConfigError(why)
        try:
            check_replication_factor(config.default_replication_factor, self._brokers())
        except ConfigError as error:
            raise InvalidConfigError(str(error)) from None

    def apply(self, for_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Let what is set be in force, as far as it can be, and tell the listeners of a change."""
        usable = self._usable(for_all), self._usable(own)
        config = self._config_of(*usable)
        # They fit at the broker that checked them. Here the start may have set others.
        for keys, why in list(misfits(config)):
            self._pass_over(why)
            usable = _without(usable[0], keys), _without(usable[1], keys)
        in_force = OptionsOfBroker(self._config_of(*usable), own=usable[1], for_all=usable[0])
        if in_force == self.in_force:
            return
        self._log(in_force.config)
        self.in_force = in_force
        for listener in self._listeners:
            listener(in_force)

    def _config_of(self, for_all: Mapping[str, Any], own: Mapping[str, Any]) -> BrokerConfig:
        values = {BY_KEY[key].attribute: value for key, value in {**for_all, **own}.items()}
        return replace(self._started, **values)

    def _usable(self, configs: Mapping[str, str]) -> dict[str, Any]:
        usable = {}
        for key, text in configs.items():
            try:
                # Only its key: other names are not kept.
                if dynamic_option(key).key == key:
                    usable[key] = _parsed(key, text)
            except ValueError as error:
                self._pass_over(str(error))
        return usable

    def _pass_over(self, why: str) -> None:
        if why not in self._passed_over:
            self._passed_over.add(why)
            _logger.warning("an option that is set in the cluster is not in force on this broker: %s", why)

    def _log(self, config: BrokerConfig) -> None:
        before = self.in_force.config
        for key, option in BY_KEY.items():
            old, new = getattr(before, option.attribute), getattr(config, option.attribute)
            if old != new:
                _logger.info("%s is %s from now on, and was %s", key, _words(new), _words(old))


def described(options: OptionsOfBroker, started: BrokerConfig, brokers: int) -> Iterator[DescribedConfig]:
    """Yield every option with its value in force, and all that could give it, in order of precedence."""
    for each in broker_configs(started, brokers):
        dynamic = [
            Synonym(each.key, shown_value(configs[each.key]), source)
            for configs, source in (
                (options.own, ConfigSource.DYNAMIC_BROKER_CONFIG),
                (options.for_all, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            )
            if each.key in configs
        ]
        yield replace(each, synonyms=(*dynamic, *each.synonyms))


def described_for_all(options: OptionsOfBroker) -> Iterator[DescribedConfig]:
    """Yield what is set for all brokers."""
    for key, value in options.for_all.items():
        option, text = BY_KEY[key], shown_value(value)
        synonym = Synonym(key, text, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        yield DescribedConfig(key=key, kind=kind_of(option), doc=option.doc, is_read_only=False, synonyms=(synonym,))


def _words(value: Any) -> str:
    return "not set" if value is None else shown_value(value)


def _parsed(key: str, text: str) -> Any:
    if len(text) > _TEXT_MAX:
        raise InvalidConfigError(f"{key} = {shorten(text)!r}: longer than any value of it")
    try:
        return parse_value(BY_KEY[key], text, "broker configuration")
    except ConfigError as error:
        raise InvalidConfigError(str(error)) from None


def _without(configs: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in configs.items() if key not in keys}
