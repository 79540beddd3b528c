"""What each consistency level promises, as the checks use it (README "What each level promises")."""

from enum import IntEnum

import numpy as np

from raftka.check.log.columns import QUORUM_ACK as ACKS_ALL
from raftka.check.log.columns import Numbers, Sends


class Level(IntEnum):
    """In the order of their promises."""

    NO_ACK = 0
    LEADER_ACK = 1
    WRITE_CACHING = 2
    QUORUM_ACK = 3


def levels_of(sends: Sends, acks_all: Level) -> Numbers:
    """Return each record's level: by its acks, where acks=all means `acks_all`."""
    return np.where(sends.acks == ACKS_ALL, int(acks_all), sends.acks)
