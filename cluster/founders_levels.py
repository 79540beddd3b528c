"""At which levels of features a seed founds a cluster, and what it tells the others of that (RFC 0018 section 2).

A seed whose directory is marked with levels (`directory_stamp`) is *bound* to them. It founds the cluster once all are
bound to the same levels and would found the same cluster (`founding`), or one has founded it.

A bound seed that hears of lower levels goes down to the highest that both have, and is bound anew. It never goes up.
What a seed was once bound to stays true, so a word of it may be old. Let one seed found at A and another at B. They
found the same cluster, so each has the word of the other's present directory. The first was bound to B before A, and
the second to A before B: both are the same. Seeds without any levels found at once. So a bound seed never goes down to
none, and it keeps the level of membership. It waits for a version that has them.

Pure: what is known goes in, and what follows comes out.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cluster.data_directory import MEMBERSHIP_LEVELS
from model.features import lacking, lowest_of


def word_of(features: Mapping[str, int], bound: Mapping[str, int]) -> Mapping[str, int]:
    """Return the highest levels that a seed founds a cluster at.

    Args:
        features: The highest that its version has.
        bound: What it is bound to; empty: it is not.
    """
    return lowest_of(features, bound) if bound else features


class FounderLevels(NamedTuple):
    """What one seed has, by feature, above 0.

    Attributes:
        features: The highest levels of its version.
        stamped: The mark of its directory. It may have more than the version: an older one was started since.
    """

    features: Mapping[str, int]
    stamped: Mapping[str, int]

    @property
    def word(self) -> Mapping[str, int]:
        """The highest levels that it founds a cluster at."""
        return word_of(self.features, self.stamped)

    @property
    def bound(self) -> Mapping[str, int]:
        """What it tells that it is bound to. A version that has less goes down first."""
        return {} if lacking(self.stamped, self.features) else self.stamped

    @property
    def is_usable(self) -> bool:
        """Whether its version has enough to found a cluster from this directory."""
        return not self.stamped or self._goes_down_to(self.features)

    def may_found_with(self, word: Mapping[str, int]) -> bool:
        """Whether the word of another seed is enough."""
        return not self.stamped or self._goes_down_to(word)

    def must_go_down_to(self, word: Mapping[str, int]) -> bool:
        """Whether the word of another seed is enough, and below what this one is bound to."""
        return bool(lacking(self.stamped, word)) and self._goes_down_to(word)

    def _goes_down_to(self, word: Mapping[str, int]) -> bool:
        levels = lowest_of(self.stamped, word)
        return bool(levels) and lowest_of(levels, MEMBERSHIP_LEVELS) == lowest_of(self.stamped, MEMBERSHIP_LEVELS)
