"""Pins: the cheapest seed of each bug."""

from pathlib import Path

from tests.simulation.known_bugs.hunt import Hunt
from tests.simulation.known_bugs.pins import Pin, read_pins, write_pins


def test_of_several_tries_the_cheapest_is_pinned(tmp_path: Path) -> None:
    file = tmp_path / "seeds.json"
    write_pins([Hunt("other", 9, "Positions"), Hunt("gone", 9, "Positions")], ["other", "gone"], file)
    tries = [
        Hunt("bug", 1, "VoteOnce", last_seconds=50.0),
        Hunt("bug", 1001, "Truncation", last_seconds=7.0),
        Hunt("bug", 2001, "VoteOnce", last_seconds=30.0),
        Hunt("bug"),
    ]
    write_pins(tries, ["bug", "other"], file)
    assert read_pins(file) == {"bug": Pin(1001, "Truncation"), "other": Pin(9, "Positions")}
