"""What versions offer that are older than this one."""

from model.features import KNOWN, MEMBERSHIP, LevelRange

# No level of anything, as the versions before brokers could join. Schedules that were pinned with it stay as they are.
LEVEL_0 = {MEMBERSHIP: LevelRange(0, 0)}
# Brokers join and leave, and nothing else: the version before transactions. Living schedules were pinned with it.
LIVING = {MEMBERSHIP: KNOWN[MEMBERSHIP]}
