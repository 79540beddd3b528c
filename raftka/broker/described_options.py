"""The broker's options as DescribeConfigs tells them: all of them, as they were at the start."""

import ipaddress
from collections.abc import Iterator
from typing import Any

from kafka_api.described_configs import DescribedConfig, broker_config
from kafka_api.options import automatic_replication_factor
from model.config_definition import INT_MAX, ConfigType
from raftka.config import BrokerConfig, SeedAddress
from raftka.config_options import OPTIONS, Option

ADMIN_LISTENER = "admin.advertised.listener"

_KINDS = {
    "bool": ConfigType.BOOLEAN,
    "float": ConfigType.DOUBLE,
    "list": ConfigType.LIST,
    "string": ConfigType.STRING,
    "host": ConfigType.STRING,
}


def broker_configs(config: BrokerConfig, brokers: int) -> Iterator[DescribedConfig]:
    """Yield every option with its value, and where the admin port is found; `brokers`: so many are in the cluster."""
    for option in OPTIONS:
        value, default = getattr(config, option.attribute), option.default
        if option.key == "default.replication.factor":
            default = automatic_replication_factor(brokers)
            value = value or default
        is_read_only = not option.is_dynamic
        words = (option.key, kind_of(option), option.doc)
        yield broker_config(*words, _shown(value), _shown(default), is_read_only=is_read_only)
    doc = "Where this broker serves HTTP for operators; it follows from admin.address and admin.port."
    yield broker_config(ADMIN_LISTENER, ConfigType.STRING, doc, admin_listener(config), None)


def kind_of(option: Option) -> ConfigType:
    """Return the type that clients are told."""
    if option.kind == "int":
        return ConfigType.LONG if option.high > INT_MAX else ConfigType.INT
    return _KINDS[option.kind]


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(_shown_element, value))
    return str(value)


def _shown_element(element: SeedAddress | str) -> str:
    if isinstance(element, SeedAddress):
        return f"{element.node_id}@{_join(element.host, element.port)}"
    return element


def admin_host(config: BrokerConfig) -> str:
    """Return the host by which the admin port is told to others."""
    try:
        is_wildcard = ipaddress.ip_address(config.admin_address).is_unspecified
    except ValueError:
        is_wildcard = False
    # A wildcard listens where Kafka clients come in, too.
    return config.kafka_advertised_address if is_wildcard else config.admin_address


def admin_listener(config: BrokerConfig) -> str:
    """Return where this broker serves HTTP for operators, as a URL."""
    return f"http://{_join(admin_host(config), config.admin_port)}"


def _join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
