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
# Kafka's name (KIP-584, KIP-890): RFC 0021 says what each level means.
TRANSACTIONS = "transaction.version"

# From this level of MEMBERSHIP on, options of brokers are set while they run.
OPTIONS_LEVEL = 1
# From this level on, partitions move between brokers.
PLACEMENTS_LEVEL = 1
# From this level on, brokers join, leave, and get new data directories.
BROKERS_LEVEL = 1

# From this level on, versions without the feature must refuse a broker's data directory (`cluster.directory_stamp`).
STAMP_LEVEL = 1

# What this version offers, by name. At level 0 a feature is not in use.
OFFERED: Mapping[str, LevelRange] = {
    # Brokers join and leave, replicas move between brokers, and options change while brokers run.
    MEMBERSHIP: LevelRange(0, 1),
}
# With `unstable.feature.versions.enable`: also levels that are being built. A later version may read them otherwise.
UNSTABLE: Mapping[str, LevelRange] = {**OFFERED, TRANSACTIONS: LevelRange(0, 2)}


def told_features(offered: Mapping[str, LevelRange] = OFFERED) -> dict[str, int]:
    """Return what a broker tells of itself: the highest level of each feature that it can use at all."""
    return {name: levels.highest for name, levels in sorted(offered.items()) if levels.highest}
