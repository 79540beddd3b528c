"""The loggers of this broker as a resource of configurations (KIP-412): each logger is a key, its level the value."""

import logging
from collections.abc import Iterator, Sequence

from cluster.topic_changes import ConfigChange, ConfigOperation
from kafka_api.described_configs import ConfigSource, DescribedConfig, Synonym
from kafka_api.handlers.config_resources import ResourceRefusedError, is_this_broker
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.request_context import RequestContext
from model.config_definition import ConfigType
from runtime.log_levels import LOGGERS, ROOT, LogLevelError, check_level, check_logger, logger_levels, set_level

_logger = logging.getLogger("broker")


def describe_loggers(context: RequestContext, name: str) -> Iterator[DescribedConfig]:
    """Yield each logger with its level. The synonym is the logger that the level comes from: itself, or one above it.

    Raises:
        ResourceRefusedError: `name` is not this broker's node id.
    """
    _check_broker(context, name)
    for each in logger_levels():
        source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
        yield DescribedConfig(
            key=each.name,
            kind=ConfigType.STRING,
            doc=LOGGERS[each.name],
            is_read_only=False,
            synonyms=(Synonym(each.source, each.level, source),),
        )


def alter_loggers(
    context: RequestContext, name: str, changes: Sequence[ConfigChange], *, validate_only: bool, replaces_all: bool
) -> None:
    """Change levels, all or none, until the end of the process.

    Raises:
        ResourceRefusedError: Another broker's; an unknown logger or level; another operation than set and delete; the
            root's level deleted; AlterConfigs, which is not for loggers.
    """
    _check_broker(context, name)
    if replaces_all:
        raise ResourceRefusedError(
            ErrorCode.INVALID_REQUEST, "AlterConfigs does not change loggers: use IncrementalAlterConfigs"
        )
    try:
        levels = {check_logger(change.key): _level(change) for change in changes}
    except LogLevelError as error:
        raise ResourceRefusedError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if validate_only:
        return
    for logger, level in levels.items():
        set_level(logger, level)
        # Whatever the levels are now: who reads the log must know why lines begin or end.
        _logger.warning("log level of %s: %s, until this broker ends", logger, level or "as the logger above it")


def _check_broker(context: RequestContext, name: str) -> None:
    if not is_this_broker(context, name):
        raise ResourceRefusedError(ErrorCode.INVALID_REQUEST, "the loggers of which broker? name its node id")


def _level(change: ConfigChange) -> str | None:
    match change.operation:
        case ConfigOperation.SET:
            return check_level(change.value or "")
        case ConfigOperation.DELETE if change.key == ROOT:
            raise ResourceRefusedError(
                ErrorCode.INVALID_REQUEST, f"{ROOT}: its level cannot be deleted, there is no logger above it: set one"
            )
        case ConfigOperation.DELETE:
            return None
        case _:
            raise ResourceRefusedError(
                ErrorCode.INVALID_REQUEST, f"{change.key}: the level of a logger is set or deleted, nothing else"
            )
