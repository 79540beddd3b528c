"""The seed that has shown each bug last, in `seeds.json`: written by the command, read by the tests."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.simulation.known_bugs.hunt import Hunt

_FILE = Path(__file__).with_name("seeds.json")


class Pin(msgspec.Struct, frozen=True):
    """Who objected at which seed."""

    seed: int
    objector: str


def read_pins(file: Path = _FILE) -> dict[str, Pin]:
    """Return the pins by the names of their bugs."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Pin]) if file.exists() else {}


def first_seed(pins: dict[str, Pin], name: str) -> int:
    """Return where to begin to search; for what was never pinned with the first seed there is."""
    return pins[name].seed if name in pins else 1


def write_pins(hunts: Iterable[Hunt], names: Iterable[str], file: Path = _FILE) -> None:
    """Pin the cheapest of what was found, keep the other pins of the bugs that there are, and forget the rest."""
    pins = read_pins(file)
    # The cheapest is the last that is written.
    for each in sorted(hunts, key=_cost, reverse=True):
        if each.seed is not None and each.objector is not None:
            pins[each.name] = Pin(each.seed, each.objector)
    kept = {name: pins[name] for name in names if name in pins}
    file.write_bytes(msgspec.json.format(msgspec.json.encode(kept, order="sorted"), indent=2) + b"\n")


def _cost(found: Hunt) -> tuple[float, int]:
    """Return the virtual seconds that the test of a pin runs, and the seed, which tells equals apart."""
    return found.last_seconds, found.seed or 0
