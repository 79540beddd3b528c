"""What a log workload works on, and the words of its records."""

import time
from dataclasses import dataclass
from typing import Literal

Acks = Literal["all", "1", "0"]
WIRE_ACKS: dict[Acks, int] = {"all": -1, "1": 1, "0": 0}

# How long an idempotent producer tries again, and how long others wait for the one answer.
DELIVERY_SECONDS = 12.0
PRODUCE_TIMEOUT_MS = 4_000
# So that segments are closed during a run of minutes.
VALUE_BYTES = 200


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of a run, all alike."""

    names: tuple[str, ...]
    partitions: int
    replicas: int

    @property
    def all(self) -> list[tuple[str, int]]:
        """Every partition."""
        return [(name, number) for name in self.names for number in range(self.partitions)]


def addresses_of(bootstrap: str) -> list[tuple[str, int]]:
    """Return host and port of each broker of HOST:PORT,..."""
    return [(host, int(port)) for host, _, port in (each.rpartition(":") for each in bootstrap.split(","))]


def tp_of(topic: str, partition: int) -> str:
    """Return a partition as histories name it."""
    return f"{topic}-{partition}"


def padded(value: str) -> bytes:
    """Return a value as it is sent."""
    return value.encode().ljust(VALUE_BYTES)


def stripped(data: bytes) -> str:
    """Return a value as it is written down."""
    return data.rstrip(b" ").decode(errors="replace")


def wall_ms() -> int:
    """Return the timestamp of a record that is sent now."""
    return time.time_ns() // 1_000_000
