"""Keys of topics of which one value describes what every broker does: that value is accepted, all others are refused.

A tool that copies a topic's configuration from Kafka, such as MirrorMaker, names all of them.
"""

from model.config_definition import LONG_MAX, ConfigDefinition, ConfigType, ConfigValue

_RECOMPRESSION = "recompression by the broker"
_UNCOMPRESSED = "No broker compresses anything, so no level of compression is used."
_TIERED = "tiered storage"


def _fixed(key: str, kind: ConfigType, value: ConfigValue, doc: str, waits_for: str = "") -> ConfigDefinition:
    if isinstance(value, str | bool):
        choices = (str(value).lower(),)
        return ConfigDefinition(key=key, kind=kind, default=value, doc=doc, choices=choices, waits_for=waits_for)
    number = int(value)
    return ConfigDefinition(key=key, kind=kind, default=number, doc=doc, low=number, high=number, waits_for=waits_for)


_SINCE_COMPACTION = (
    _fixed("compression.gzip.level", ConfigType.INT, -1, _UNCOMPRESSED, _RECOMPRESSION),
    _fixed("compression.lz4.level", ConfigType.INT, 9, _UNCOMPRESSED, _RECOMPRESSION),
    _fixed("compression.zstd.level", ConfigType.INT, 3, _UNCOMPRESSED, _RECOMPRESSION),
    _fixed("file.delete.delay.ms", ConfigType.LONG, 0, "Files of deleted segments go at once."),
    _fixed("local.retention.bytes", ConfigType.LONG, -2, "All that a topic keeps is local.", _TIERED),
    _fixed("local.retention.ms", ConfigType.LONG, -2, "All that a topic keeps is local.", _TIERED),
    _fixed("preallocate", ConfigType.BOOLEAN, False, "Files grow as records come."),
    _fixed("remote.log.copy.disable", ConfigType.BOOLEAN, False, "There is no remote storage.", _TIERED),
    _fixed("remote.log.delete.on.disable", ConfigType.BOOLEAN, False, "There is no remote storage.", _TIERED),
    _fixed("remote.storage.enable", ConfigType.BOOLEAN, False, "There is no remote storage.", _TIERED),
    _fixed("segment.jitter.ms", ConfigType.LONG, 0, "Segments are rolled by segment.bytes and segment.ms alone."),
    _fixed(
        "unclean.leader.election.enable",
        ConfigType.BOOLEAN,
        False,
        "Raft never elects a replica that lacks a committed record.",
    ),
)

# Versions without compacted topics do not know these.
FIXED_SINCE_COMPACTION = frozenset(each.key for each in _SINCE_COMPACTION)

FIXED_CONFIGS = (
    _fixed(
        "compression.type",
        ConfigType.STRING,
        "producer",
        "Batches are kept as the producer has compressed them.",
        _RECOMPRESSION,
    ),
    _fixed(
        "flush.messages",
        ConfigType.LONG,
        LONG_MAX,
        "acks=all is fsynced before it is answered, everything else within raft.flush.interval.ms; no count of"
        " records forces another fsync.",
        "a flush by number of records",
    ),
    _fixed(
        "flush.ms",
        ConfigType.LONG,
        LONG_MAX,
        "acks=all is fsynced before it is answered, everything else within raft.flush.interval.ms; a topic has no"
        " interval of its own.",
        "a flush interval per topic",
    ),
    *_SINCE_COMPACTION,
)
