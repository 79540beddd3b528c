"""Data directories that are away for a while: whose they are, and whose end they explain."""

from raftka.chaos.cluster import ChaosCluster


class VanishedDirectories:
    """Nobody starts a broker whose directory is away: it would make a new one in its place.

    A broker that lives while its directory goes has to end by itself with exit code 1, and say why; one that has not
    looked before the directory is back (it was paused, or starved) may live on.
    """

    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster = cluster
        self._away: set[int] = set()
        # How long the log was when the directory of a broker went, until the end that it explains has been seen.
        self._log_sizes: dict[int, int] = {}

    def __contains__(self, node: int) -> bool:
        return node in self._away

    def take_away(self, node: int) -> None:
        """Take the directory of a serving broker."""
        self._log_sizes[node] = self._cluster.log_size(node)
        self._cluster.take_directory_away(node)
        self._away.add(node)

    def bring_back(self, node: int) -> None:
        """Put it back, if it is away."""
        if node in self._away:
            self._cluster.bring_directory_back(node)
            self._away.discard(node)

    def forget(self, node: int) -> None:
        """Its next life begins: how the last one ended explains nothing any more."""
        self._log_sizes.pop(node, None)

    def explains_end(self, node: int, code: int) -> bool:
        """Whether a broker that has ended by itself did so because its directory was away; told once for each time."""
        since = self._log_sizes.get(node)
        if since is None or code != 1 or not self._cluster.has_lost_its_directory(node, since):
            return False
        del self._log_sizes[node]
        return True
