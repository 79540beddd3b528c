"""What is known of a pipeline's run: written by its runner, read by `raftka pipeline status` at any time."""

from enum import StrEnum

import msgspec

from raftka.dev.process_identity import ProcessIdentity
from raftka.pipeline.progress import Progress


class State(StrEnum):
    """How a run stands. DIED is never written: it is a run that says it runs, and whose process is gone."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    FAILED = "failed"
    DIED = "died"


ALIVE = frozenset({State.STARTING, State.RUNNING, State.STOPPING})


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a pipeline.

    Attributes:
        pid: The runner's, with the moment it started, as `ProcessIdentity` has it.
        jvm_pid: Its JVM's, likewise; None until there is one.
        since: When it started, ISO 8601.
        rows: Records of all batches of this run.
        batches: How many batches this run has completed.
        last: What the newest batch came to.
        error: Why it failed, in a line.
    """

    name: str
    kind: str
    version: int
    state: State
    pid: int
    started: str
    since: str
    jvm_pid: int | None = None
    jvm_started: str | None = None
    rows: int = 0
    batches: int = 0
    last: Progress | None = None
    error: str | None = None

    @property
    def runner(self) -> ProcessIdentity:
        """The process that runs, or ran, it."""
        return ProcessIdentity(self.pid, self.started)

    def seen(self) -> State:
        """Return how the run stands now, as seen from outside."""
        return State.DIED if self.state in ALIVE and not self.runner.is_alive else self.state


def encode_status(status: Status) -> bytes:
    """Return the file's content."""
    return msgspec.json.format(msgspec.json.encode(status)) + b"\n"


def decode_status(data: bytes) -> Status:
    """Return what `encode_status` wrote.

    Raises:
        ValueError: It is something else.
    """
    return msgspec.json.decode(data, type=Status)
