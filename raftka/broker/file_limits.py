"""How many files and sockets this process may have open, and what of it each port may take."""

import logging
import resource
from typing import NamedTuple

from model.error_text import reason_of

_logger = logging.getLogger("broker")

# Enough for 10,000 clients and the files of some ten thousand partitions.
_OPEN_FILES_MAX = 65_536
# The rest is for segments and their indexes, for the kvstore and for the links to other brokers.
_KAFKA_SHARE = 1 / 2
_ADMIN_SHARE = 1 / 16
# Sockets of listeners and links, the kvstore, and what writes open for a moment: what is left after it is for segments.
_RESERVED = 64
_SEGMENT_FILES_MIN = 16


class ConnectionLimits(NamedTuple):
    """Most open connections per port."""

    kafka: int
    admin: int


def raise_open_files_limit() -> int:
    """Raise the soft limit of open files as far as is allowed and useful; return what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = _bounded(soft), _bounded(hard)
    if soft < hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        except (OSError, ValueError) as error:
            _logger.warning("the limit of open files stays %d: %s", soft, reason_of(error))
            return soft
        soft = hard
    return soft


def connection_limits(open_files: int, kafka_wanted: int, admin_wanted: int) -> ConnectionLimits:
    """Return what fits beside the files of the broker, and say it where that is less than wanted."""
    limits = ConnectionLimits(
        min(kafka_wanted, max(int(open_files * _KAFKA_SHARE), 1)),
        min(admin_wanted, max(int(open_files * _ADMIN_SHARE), 1)),
    )
    _logger.info(
        "at most %d open files: %d connections of Kafka clients, %d of the admin port",
        open_files,
        limits.kafka,
        limits.admin,
    )
    if limits.kafka < kafka_wanted:
        _logger.warning(
            "%d Kafka connections do not fit into %d open files, no more than %d are taken: raise `ulimit -n` to %d",
            kafka_wanted,
            open_files,
            limits.kafka,
            int(kafka_wanted / _KAFKA_SHARE),
        )
    return limits


def segment_files(open_files: int, connections: ConnectionLimits) -> int:
    """Return how many segment files may be open together; those of closed segments are opened and closed as need be."""
    files = max(open_files - connections.kafka - connections.admin - _RESERVED, _SEGMENT_FILES_MIN)
    _logger.info("at most %d files of segments are kept open", files)
    return files


def _bounded(limit: int) -> int:
    # RLIM_INFINITY is -1.
    return _OPEN_FILES_MAX if limit == resource.RLIM_INFINITY else min(limit, _OPEN_FILES_MAX)
