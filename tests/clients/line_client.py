"""Clients in other languages: each a program that reads a JSON object per line and answers with one per line.

The command stands in `do`: version, create_topic, topics, add_partitions, set_config, config, delete_topic, produce,
fetch, offset_at, join, look, commit, leave; the other fields are named as the arguments of `Client`. Programs with
transactions have more commands (`tests.clients.transactors`). An answer has the result, or `error`. `look` answers what is new since the last one. The end of its input is the end of the program.
"""

import itertools
import json
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.clients.client import DEADLINE_SECONDS, Abilities, Record, Seen

# The programs have the deadline themselves, and say what did not happen in time.
_ANSWER_SECONDS = DEADLINE_SECONDS + 10.0
_SHOWN_CHARACTERS = 3_000


class ProgramError(Exception):
    """A program answered with an error, or not at all."""


class LineClient:
    """See `Client`.

    Args:
        name: The client's name.
        abilities: What it has.
        command: The program; the brokers' addresses follow.
        bootstrap: The brokers.
        log: A file for what it says beside its answers.
    """

    def __init__(self, name: str, abilities: Abilities, command: Sequence[str], bootstrap: str, log: Path) -> None:
        self.name = name
        self.abilities = abilities
        self._log = log
        self._numbers = itertools.count()
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        # Threads may ask at the same time; the program answers one after the other.
        self._lock = threading.Lock()
        self._answers: queue.Queue[str | None] = queue.Queue(1_000)
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def ask(self, do: str, **words: Any) -> dict[str, Any]:
        """Return the answer to a command.

        Raises:
            ProgramError: The program answered with an error, ended, or did not answer in time.
        """
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps({"do": do, **words}) + "\n")
                self._process.stdin.flush()
                line = self._answers.get(timeout=_ANSWER_SECONDS)
        except (BrokenPipeError, queue.Empty):
            line = None
        answer: dict[str, Any] = {"error": "no answer"} if line is None else json.loads(line)
        if "error" in answer:
            said = self._log.read_text(errors="replace")[-_SHOWN_CHARACTERS:]
            raise ProgramError(f"{self.name}: {do}: {answer['error']}\n{said}")
        return answer

    def version(self) -> str:
        return str(self.ask("version")["version"])

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        self.ask("create_topic", topic=topic, partitions=partitions, configs=dict(configs))

    def topics(self) -> dict[str, int]:
        return {str(name): int(count) for name, count in self.ask("topics")["topics"].items()}

    def add_partitions(self, topic: str, total: int) -> None:
        self.ask("add_partitions", topic=topic, total=total)

    def set_config(self, topic: str, key: str, value: str) -> None:
        self.ask("set_config", topic=topic, key=key, value=value)

    def config(self, topic: str, key: str) -> str:
        return str(self.ask("config", topic=topic, key=key)["value"])

    def delete_topic(self, topic: str) -> None:
        self.ask("delete_topic", topic=topic)

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all", idempotent: bool = False
    ) -> list[int]:
        told = [
            {"key": each.key, "value": each.value, "headers": each.headers, "timestamp": each.timestamp}
            for each in records
        ]
        answer = self.ask("produce", topic=topic, codec=codec, acks=acks, idempotent=idempotent, records=told)
        return [int(offset) for offset in answer["offsets"]]

    def fetch(self, topic: str, offset: int, count: int) -> list[Record]:
        return [_as_record(each) for each in self.ask("fetch", topic=topic, offset=offset, count=count)["records"]]

    def offset_at(self, topic: str, timestamp: int) -> int:
        return int(self.ask("offset_at", topic=topic, timestamp=timestamp)["offset"])

    def join(self, group: str, topic: str, *, committed: bool = False) -> "LineMember":
        member = f"member-{next(self._numbers)}"
        self.ask("join", member=member, group=group, topic=topic, committed=committed)
        return LineMember(self, member)

    def close(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(DEADLINE_SECONDS)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join(DEADLINE_SECONDS)
            self._process.stdout.close()


class LineMember:
    """See `Member`."""

    def __init__(self, client: LineClient, member: str) -> None:
        self._client = client
        self._member = member
        self._seen = Seen()

    def look(self) -> Seen:
        answer = self._client.ask("look", member=self._member)
        self._seen.owned = {int(partition) for partition in answer["owned"]}
        self._seen.records += [_as_record(each) for each in answer["records"]]
        return Seen(set(self._seen.owned), list(self._seen.records))

    def commit(self) -> None:
        self._client.ask("commit", member=self._member)

    def close(self) -> None:
        self._client.ask("leave", member=self._member)


def _as_record(told: dict[str, Any]) -> Record:
    headers = tuple((name, value) for name, value in told["headers"])
    return Record(told["key"], told["value"], headers, told["timestamp"], told["partition"], told["offset"])
