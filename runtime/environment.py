"""The outside world of one node, injected everywhere."""

from dataclasses import dataclass

from runtime.clock import SystemWallClock, WallClock
from runtime.files import FileSystem, OsFileSystem
from runtime.injected_hangs import HangingWorkers
from runtime.network import Network, OsNetwork
from runtime.rng import Rng, system_rng
from runtime.workers import ThreadWorkers, Workers


@dataclass(frozen=True, slots=True)
class Environment:
    """Four seams (clock, disk, wire, chance) and the workers that blocking calls run on."""

    wall_clock: WallClock
    files: FileSystem
    network: Network
    rng: Rng
    workers: Workers


def system_environment(hang_appends_while: str | None = None) -> Environment:
    """Return the machine's own environment; in chaos runs its appends hang while the file so named exists."""
    workers = ThreadWorkers() if hang_appends_while is None else HangingWorkers(hang_appends_while)
    return Environment(SystemWallClock(), OsFileSystem(), OsNetwork(), system_rng(), workers)
