"""The register workload: a topic's name is a compare-and-set object, which creating and deleting it moves.

    create   cas [null, "there"]     TOPIC_ALREADY_EXISTS: it did not
    delete   cas ["there", null]     UNKNOWN_TOPIC_OR_PARTITION: it did not
    read     CreateTopics with validate_only, which creates nothing

Anything else may or may not have happened.
"""

import asyncio
import random
import threading
from concurrent.futures import Future
from typing import Any

from raftka.chaos.history import History
from raftka.chaos.interruption import result_of
from raftka.chaos.leadership import LeadershipWatch
from raftka.chaos.load import Topics, addresses_of
from raftka.chaos.loop_thread import LoopThread
from raftka.chaos.topic_admin import LibrdkafkaTopics, TopicClient, WireTopics
from raftka.kafka.wire.client import NotSentError, WireClient
from raftka.kafka.wire.record_batches import Producer

_THERE = "there"
_NAMES = 3
_CLIENTS = 5
# After something that nobody knows the end of, for it may still be under way.
_DOUBT_SECONDS = 0.5
_STOP_SECONDS = 30.0


class RegisterWorkload:
    """A context manager; `start`, then `stop`. Nothing is read at the end: a register's history needs no end."""

    model = "cas"

    def __init__(self, bootstrap: str, history: History, seed: int, rate: float, replicas: int) -> None:
        self._history = history
        self._rng = random.Random(f"{seed} clients")
        self._pause = _CLIENTS / rate
        self.topics = Topics((), 0, replicas)
        addresses = addresses_of(bootstrap)
        wire = WireClient(addresses, self._rng, "raftka-chaos")
        self.watch = LeadershipWatch(WireClient(addresses, self._rng, "raftka-chaos-watch"), self.topics)
        self._clients: list[TopicClient] = [
            WireTopics(wire, replicas) if number % 2 == 0 else LibrdkafkaTopics(bootstrap, replicas)
            for number in range(_CLIENTS)
        ]
        self._generations = [0] * _NAMES
        self._is_working = True
        self._running: list[Future[None]] = []
        self._loop = LoopThread()

    def __enter__(self) -> "RegisterWorkload":
        self._loop.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.__exit__(None, None, None)

    @property
    def epochs(self) -> dict[tuple[str, int], int]:
        """Registers have none."""
        return {}

    @property
    def producers(self) -> dict[tuple[str, int], Producer]:
        """Registers have none."""
        return {}

    def start(self) -> None:
        """Begin."""
        self._loop.start(self.watch.run())
        self._running = [self._loop.start(self._run(each)) for each in self._clients]

    def stop(self, gives_up: threading.Event) -> None:
        """See Workload."""
        self._is_working = False
        for future in self._running:
            result_of(future, _STOP_SECONDS, "a client", gives_up)

    def why_not_well(self, gives_up: threading.Event) -> str | None:
        """Return what is not well yet."""
        return result_of(self._loop.start(self.watch.why_not_well()), _STOP_SECONDS, "metadata", gives_up)

    def read_finally(self, gives_up: threading.Event) -> None:
        """Do nothing: there is no end to be read."""

    async def _run(self, client: TopicClient) -> None:
        process = self._history.process()
        while self._is_working:
            await asyncio.sleep(self._rng.expovariate(1 / self._pause))
            number = self._rng.randrange(_NAMES)
            if not await self._one(client, process, f"name-{number}-{self._generations[number]}"):
                # What has no end is under way on its name for ever: a new name keeps such things few on each.
                self._generations[number] += 1
                await asyncio.sleep(_DOUBT_SECONDS)

    async def _one(self, client: TopicClient, process: int, key: str) -> bool:
        """Do one operation; return whether it is known what became of it."""
        f = self._rng.choice(["read", "create", "delete"])
        if f == "read":
            line = self._history.begin("read", process, key=key)
            work = client.is_there(key)
        else:
            wanted: list[Any] = [None, _THERE] if f == "create" else [_THERE, None]
            line = self._history.begin("cas", process, key=key, **{"in": wanted})
            work = client.create(key) if f == "create" else client.delete(key)
        try:
            told = await work
        except NotSentError as error:
            self._history.end(line, "fail", err=str(error))
            await asyncio.sleep(_DOUBT_SECONDS)
            return True
        if told is None:
            self._history.end(line, "info")
            return f == "read"
        self._history.end(line, "ok", out=(_THERE if told else None) if f == "read" else told)
        return True
