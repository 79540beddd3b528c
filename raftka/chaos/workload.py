"""What a run needs of a workload."""

import threading
from types import TracebackType
from typing import Protocol, TypeVar

from raftka.chaos.leadership import LeadershipWatch
from raftka.chaos.load import Topics
from raftka.kafka.wire.record_batches import Producer

Self = TypeVar("Self")


class Workload(Protocol):
    """Clients that write down what they see. A context manager; `start`, then `stop`, then `read_finally`.

    Whatever waits raises GivenUpError as soon as `gives_up` is set, and ChaosError where it takes too long.
    """

    @property
    def model(self) -> str:
        """Which model of the checker its history is of."""
        ...

    @property
    def topics(self) -> Topics:
        """The topics it keeps working on; none for one that makes and deletes them."""
        ...

    @property
    def watch(self) -> LeadershipWatch:
        """Who leads them."""
        ...

    @property
    def epochs(self) -> dict[tuple[str, int], int]:
        """The epoch of each record that the final reads found, by (partition, offset)."""
        ...

    @property
    def producers(self) -> dict[tuple[str, int], Producer]:
        """Who wrote each record that the final reads found, by (partition, offset); only idempotent producers."""
        ...

    def __enter__(self: Self) -> Self:
        """Prepare."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Drop what is under way."""
        ...

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self, gives_up: threading.Event) -> None:
        """Stop the load, and wait for what is under way."""
        ...

    def why_not_well(self, gives_up: threading.Event) -> str | None:
        """Return what keeps the final reads from being complete; None: nothing does."""
        ...

    def read_finally(self, gives_up: threading.Event) -> None:
        """Read everything once more."""
        ...
