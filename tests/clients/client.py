"""What every Kafka client of this folder can be asked to do: the words in which the tasks are written.

One class per client fulfils `Client`; the tasks (test_client_*.py) know no other. A call that cannot be fulfilled within
`DEADLINE_SECONDS` raises. Keys and values are text, because they travel as JSON to the clients in other languages.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

# For everything that waits; a loaded machine is slow.
DEADLINE_SECONDS = 60.0

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ALL_ACKS = ("0", "1", "all")

# What a client is told where several members share a group: short enough that a dead coordinator is noticed soon,
# long enough that a member on a busy machine is not thrown out.
SESSION_TIMEOUT_MS = 10_000
HEARTBEAT_INTERVAL_MS = 500


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is handed to a producer, or as a consumer got it.

    Attributes:
        value: None is a tombstone.
        timestamp: Milliseconds since 1970; None leaves it to the producer.
        partition, offset: Where it was read; -1 before.
    """

    key: str | None
    value: str | None
    headers: tuple[tuple[str, str | None], ...] = ()
    timestamp: int | None = None
    partition: int = -1
    offset: int = -1

    @property
    def content(self) -> tuple[str | None, str | None, tuple[tuple[str, str | None], ...]]:
        return self.key, self.value, self.headers


def values_only(values: Sequence[str]) -> list[Record]:
    """Return records with these values and nothing else."""
    return [Record(None, value) for value in values]


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a client has, and what it lacks and therefore is not asked for.

    Attributes:
        codecs: Its codecs, of `ALL_CODECS`.
        administers: Whether it creates, lists, changes and deletes topics.
        sets_timestamps: Whether a record's time can be told to its producer.
        null_headers: Whether a header's value can be null.
        headers_per_record: Whether each record has headers of its own.
        idempotent: Whether its producer can be idempotent across calls of `produce`.
        transactions: Whether `TRANSACTORS` makes transactional producers of it.
    """

    codecs: tuple[str, ...] = ALL_CODECS
    administers: bool = True
    sets_timestamps: bool = True
    null_headers: bool = True
    headers_per_record: bool = True
    idempotent: bool = True
    transactions: bool = False

    def lacking(self, names: Collection[str]) -> list[str]:
        """Return, of these abilities, in words what the client is without."""
        codecs = [codec for codec in ALL_CODECS if codec not in self.codecs] if "codecs" in names else []
        return codecs + [_WORDS[name] for name in names if name != "codecs" and not getattr(self, name)]


_WORDS = {
    "administers": "administration",
    "sets_timestamps": "times of its own",
    "null_headers": "null headers",
    "headers_per_record": "headers per record",
    "idempotent": "an idempotent producer",
    "transactions": "transactions in its test program",
}


@dataclass(slots=True)
class Seen:
    """What a member of a group owns, and has read since it joined."""

    owned: set[int] = field(default_factory=set)
    records: list[Record] = field(default_factory=list)

    @property
    def values(self) -> list[str | None]:
        return [record.value for record in self.records]


class Member(Protocol):
    """A consumer in a group that reads in the background from the moment it is made until `close`."""

    def look(self) -> Seen:
        """Return all that it has seen; raises what went wrong in the background."""

    def commit(self) -> None:
        """Commit what `look` has returned or more, and wait for the answer.

        A client that cannot be told to commits in the background instead, and at the latest in `close`.
        """

    def close(self) -> None:
        """Leave the group."""


class Client(Protocol):
    """A Kafka client."""

    name: str
    abilities: Abilities

    def version(self) -> str:
        """Return the version of the client library."""

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Create a topic with three replicas."""

    def topics(self) -> dict[str, int]:
        """Return the topics with the number of their partitions."""

    def add_partitions(self, topic: str, total: int) -> None:
        """Make it so many partitions."""

    def set_config(self, topic: str, key: str, value: str) -> None:
        """Set one key of a topic's configuration."""

    def config(self, topic: str, key: str) -> str:
        """Return one key of a topic's configuration."""

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all", idempotent: bool = False
    ) -> list[int]:
        """Write records to partition 0, wait until each is answered, and return the offsets; -1 where none is told.

        The producer of a (codec, acks, idempotent) is made once and kept: what follows from it is one sequence.
        """

    def fetch(self, topic: str, offset: int, count: int) -> list[Record]:
        """Return so many records of partition 0 from an offset on, read by assignment, without a group."""

    def offset_at(self, topic: str, timestamp: int) -> int:
        """Return the offset of the first record of partition 0 at or after a time; -1 if there is none."""

    def join(self, group: str, topic: str, *, committed: bool = False) -> Member:
        """Make a member of a group; a group without commits begins at the earliest record.

        Clients of `tests.clients.transactors` read at read_committed if they are asked to.
        """

    def close(self) -> None:
        """Give back what it holds."""


class PolledMember:
    """A member whose client has to be polled: in one thread, which alone touches the consumer.

    Subclasses say what to do; whatever they raise ends the thread and is raised again by whoever asks next.
    """

    def __init__(self) -> None:
        self._seen = Seen()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._wishes: list[threading.Event] = []
        self._failure: BaseException | None = None
        self._refusal: str | None = None
        self._thread = threading.Thread(target=self._run, name="group member", daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Make the consumer, and subscribe."""
        raise NotImplementedError

    def poll(self) -> tuple[Sequence[Record], set[int]]:
        """Wait a moment for records; return them, and the partitions that are owned now."""
        raise NotImplementedError

    def commit_position(self) -> str | None:
        """Commit what was polled, wait for the answer, and return an error, after which it is tried again."""
        raise NotImplementedError

    def leave(self) -> None:
        """Close the consumer."""
        raise NotImplementedError

    def look(self) -> Seen:
        self._raise_failure()
        with self._lock:
            return Seen(set(self._seen.owned), list(self._seen.records))

    def commit(self) -> None:
        done = threading.Event()
        with self._lock:
            self._wishes.append(done)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not done.wait(0.05):
            self._raise_failure()
            assert time.monotonic() < deadline, f"nothing was committed, at last because of {self._refusal}"

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(DEADLINE_SECONDS)
        assert not self._thread.is_alive(), "a member did not leave"
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _run(self) -> None:
        try:
            self.open()
            try:
                while not self._is_over.is_set():
                    self._step()
            finally:
                self.leave()
        except BaseException as failure:  # noqa: BLE001 - raised again where somebody waits
            self._failure = failure

    def _step(self) -> None:
        records, owned = self.poll()
        with self._lock:
            self._seen.records += records
            self._seen.owned = owned
            wishes = list(self._wishes)
        if not wishes:
            return
        # Where the group is about to be shared out anew, it takes polls before a commit is taken.
        self._refusal = self.commit_position()
        if self._refusal is None:
            with self._lock:
                self._wishes = self._wishes[len(wishes) :]
            for done in wishes:
                done.set()
