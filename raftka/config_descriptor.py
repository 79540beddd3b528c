"""The way of a broker's configuration to its process: a file in memory, so that `ps` shows no options and no paths.

The starter writes the configuration as JSON and passes the descriptor on; the broker reads it and closes it.
"""

import os

from raftka.config import BrokerConfig, ConfigError
from raftka.error_text import short_reason_of

_BYTES_MAX = 1024 * 1024
SOURCE = "--config-fd"


def config_descriptor(text: str) -> int:
    """Return a descriptor of a new file in memory that holds `text`; the caller passes it on and closes it."""
    # Not a pipe: a text that is larger than its buffer would wait for a reader that is not started yet.
    descriptor = os.memfd_create("raftka-config", os.MFD_CLOEXEC)
    try:
        data = memoryview(text.encode())
        while data:
            data = data[os.write(descriptor, data) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_config(descriptor: int, node_id: int) -> BrokerConfig:
    """Read the configuration that `config_descriptor` holds, and close the descriptor.

    Raises:
        ConfigError: Not such a descriptor, not a configuration, or that of another node.
    """
    try:
        text = _read(descriptor)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{SOURCE} {descriptor}: cannot be read: {short_reason_of(error)};"
            " `raftka start` starts a broker with its configuration"
        ) from None
    config = BrokerConfig.from_json(text, SOURCE)
    if config.node_id != node_id:
        raise ConfigError(f"--node-id {node_id}: the configuration of {SOURCE} is that of node {config.node_id}")
    return config


def _read(descriptor: int) -> str:
    try:
        # From its beginning, wherever the writer left the position that both share.
        return os.pread(descriptor, _BYTES_MAX, 0).decode()
    finally:
        os.close(descriptor)
