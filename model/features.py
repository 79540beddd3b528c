"""Features: what all brokers of a cluster must have before one of them uses it (KIP-584, RFC 0018).

A feature has levels. A broker tells with its registration how far it can go, and raft0 keeps the level in force. What
an older version would refuse, on disk or from another broker, is written at a level that has it; it is read at any.
"""

from collections.abc import Mapping
from typing import NamedTuple


class LevelRange(NamedTuple):
    """The levels of one feature that a broker can work at: `lowest` to `highest`, 0 or more."""

    lowest: int
    highest: int


MEMBERSHIP = "raftka.membership"
# Kafka's names: transactions (RFC 0021), and groups of KIP-848.
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
# Compacted topics.
COMPACTION = "raftka.compaction"

# From this level of MEMBERSHIP on, brokers tell of leaderships that have ended.
ENDED_LEADERSHIPS_LEVEL = 1
# From this level on, options of brokers are set while they run.
OPTIONS_LEVEL = 1
# From this level on, partitions move between brokers.
PLACEMENTS_LEVEL = 1
# From this level on, brokers join, leave, and get new data directories.
BROKERS_LEVEL = 1
# From this level of COMPACTION on, topics are compacted, and logs have placeholders.
COMPACTED_TOPICS_LEVEL = 1

# From this level on, versions without the feature must refuse a broker's data directory (`cluster.directory_stamp`).
STAMP_LEVEL = 1

# All features that have a name, with the levels that they have or are to have. At level 0 a feature is not in use.
KNOWN: Mapping[str, LevelRange] = {
    # Brokers join and leave, replicas move between brokers, and options change while brokers run.
    MEMBERSHIP: LevelRange(0, 1),
    # 1: clients add partitions to their transactions; 2: brokers add them, and each end has an epoch (KIP-890).
    TRANSACTION_VERSION: LevelRange(0, 2),
    GROUP_VERSION: LevelRange(0, 1),
    COMPACTION: LevelRange(0, 1),
}
NOT_BUILT = LevelRange(0, 0)
# What this version offers, by name. A feature that is not built yet is at level 0 and told to nobody; its line here is
# the only switch.
OFFERED: Mapping[str, LevelRange] = {
    MEMBERSHIP: KNOWN[MEMBERSHIP],
    TRANSACTION_VERSION: KNOWN[TRANSACTION_VERSION],
    GROUP_VERSION: NOT_BUILT,
    COMPACTION: KNOWN[COMPACTION],
}
# Features whose level may be lowered, and how far. At both levels of a pair the same is on disk and on links, so that
# nothing has to be written anew. No version may change this for a feature that clusters use: all replicas of raft0
# judge by it alike.
LOWERED_TO: Mapping[str, int] = {TRANSACTION_VERSION: 1}
# With `unstable.feature.versions.enable`: also levels that are being built. A later version may read them otherwise.
# There are none at present.
UNSTABLE: Mapping[str, LevelRange] = {**OFFERED}


def told_features(offered: Mapping[str, LevelRange] = OFFERED) -> dict[str, int]:
    """Return what a broker tells of itself: the highest level of each feature that it can use at all."""
    return {name: levels.highest for name, levels in sorted(offered.items()) if levels.highest}


def lacking(levels: Mapping[str, int], highest: Mapping[str, int]) -> list[str]:
    """Return of these levels, as `NAME LEVEL`, those that a broker which has `highest` cannot work at."""
    return [f"{name} {level}" for name, level in sorted(levels.items()) if highest.get(name, 0) < level]


def lowest_of(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Return the levels above 0 that both have."""
    levels = {name: min(level, other.get(name, 0)) for name, level in one.items()}
    return {name: level for name, level in sorted(levels.items()) if level > 0}


def highest_of(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Return the levels that one of them has at least."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in sorted({*one, *other})}
