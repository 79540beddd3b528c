"""Options of a log. Sizes in bytes, times in milliseconds."""

from dataclasses import dataclass, field

from model.ids import DirectoryId, GroupId


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """Whose log it is: written into its directory when that is made, checked at every open.

    Attributes:
        name: What people call the group, in log lines and errors (`orders-0`); not written. Empty: the group's id.
    """

    group: GroupId
    directory_id: DirectoryId
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", str(self.group))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """Bounds of one log.

    Attributes:
        segment_bytes: A segment is rolled before it would grow beyond this; one larger entry goes alone.
        segment_ms: ... or when its first entry is older than this, by the wall clock.
        index_interval_bytes: One sparse index entry per this many bytes.
        tail_cache_bytes: Recent entries kept in memory, as far as the node's `TailBudget` has room.
    """

    segment_bytes: int = 128 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 32 * 1024
    tail_cache_bytes: int = 16 * 1024 * 1024

    def __post_init__(self) -> None:
        for name in ("segment_bytes", "segment_ms", "index_interval_bytes", "tail_cache_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")
