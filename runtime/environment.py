"""The outside world of one node, injected everywhere."""

from dataclasses import dataclass

from runtime.clock import SystemWallClock, WallClock
from runtime.files import FileSystem, OsFileSystem
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


def system_environment() -> Environment:
    """Return the machine's own environment."""
    return Environment(SystemWallClock(), OsFileSystem(), OsNetwork(), system_rng(), ThreadWorkers())
