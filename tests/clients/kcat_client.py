"""kcat: a program that does one thing at a time and knows nothing of administration."""

import json
import re
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from tests.clients.client import DEADLINE_SECONDS, HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Abilities, Record, Seen
from tests.process.kcat import kcat, metadata

_DELIVERED = re.compile(r"Message delivered to partition 0 \(offset (-?\d+)\)")
_REBALANCED = re.compile(r"Group \S+ rebalanced \(memberid [^)]*\): (assigned|revoked): (.*)")
_PARTITION = re.compile(r"\[(\d+)\]")
# Stands between key and value, and is in neither.
_DELIMITER = "|"


class KcatClient:
    """See `Client`."""

    name = "kcat"
    abilities = Abilities(administers=False, sets_timestamps=False, null_headers=False, headers_per_record=False)

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def version(self) -> str:
        shown = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=True)
        found = re.search(r"Version (\S+) .*?(librdkafka \S+)", shown.stdout)
        assert found is not None, shown.stdout
        return f"{found[1]} ({found[2]})"

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        raise NotImplementedError

    def topics(self) -> dict[str, int]:
        return {each["topic"]: len(each["partitions"]) for each in metadata(self._bootstrap)["topics"]}

    def add_partitions(self, topic: str, total: int) -> None:
        raise NotImplementedError

    def set_config(self, topic: str, key: str, value: str) -> None:
        raise NotImplementedError

    def config(self, topic: str, key: str) -> str:
        raise NotImplementedError

    def delete_topic(self, topic: str) -> None:
        raise NotImplementedError

    def produce(
        self, topic: str, records: Sequence[Record], *, codec: str = "none", acks: str = "all", idempotent: bool = False
    ) -> list[int]:
        """Write with one process; its headers are those of the first record. Empty is null (-Z), of keys and values."""
        [headers] = {record.headers for record in records}
        options = [f"acks={acks}", f"enable.idempotence={str(idempotent).lower()}", "linger.ms=5"]
        options += ["batch.num.messages=25", "message.timeout.ms=300000", "reconnect.backoff.max.ms=500"]
        command = ["kcat", "-b", self._bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, "-K", _DELIMITER, "-Z"]
        command += ["-v", "-v"]
        command += [part for option in options for part in ("-X", option)]
        command += [part for name, value in headers for part in ("-H", f"{name}={value}")]
        lines = "".join(f"{record.key or ''}{_DELIMITER}{record.value or ''}\n" for record in records)
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        assert done.returncode == 0, done.stderr
        offsets = [int(offset) for offset in _DELIVERED.findall(done.stderr)]
        assert len(offsets) == len(records), done.stderr
        return [max(offset, -1) for offset in offsets]

    def fetch(self, topic: str, offset: int, count: int) -> list[Record]:
        if count == 0:
            return []
        place = ("-C", "-t", topic, "-p", "0", "-o", str(offset), "-c", str(count), "-q", "-J")
        return [_as_record(json.loads(line)) for line in kcat(self._bootstrap, *place).splitlines()]

    def offset_at(self, topic: str, timestamp: int) -> int:
        found = re.search(r"offset (-?\d+)", kcat(self._bootstrap, "-Q", "-t", f"{topic}:0:{timestamp}"))
        assert found is not None
        return int(found[1])

    def join(self, group: str, topic: str, *, committed: bool = False) -> "KcatMember":
        assert not committed, "kcat writes no transactions: no task asks it to read them"
        return KcatMember(self._bootstrap, group, topic)

    def close(self) -> None:
        pass


class KcatMember:
    """See `Member`; it commits on its own, a few times a second and when it leaves."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        options = [
            "auto.offset.reset=earliest",
            "auto.commit.interval.ms=200",
            f"session.timeout.ms={SESSION_TIMEOUT_MS}",
        ]
        options += [f"heartbeat.interval.ms={HEARTBEAT_INTERVAL_MS}", "reconnect.backoff.max.ms=500"]
        options += ["topic.metadata.refresh.interval.ms=1000"]
        command = ["kcat", "-b", bootstrap, "-J", "-u", *(part for option in options for part in ("-X", option))]
        self._seen = Seen()
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._process = subprocess.Popen(
            [*command, "-G", group, topic], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read_records, self._read_news)]
        for thread in self._threads:
            thread.start()

    def _read_records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            record = _as_record(json.loads(line))
            with self._lock:
                self._seen.records.append(record)

    def _read_news(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._lines = [*self._lines[-20:], line]
            if found := _REBALANCED.search(line):
                owned = {int(partition) for partition in _PARTITION.findall(found[2])}
                with self._lock:
                    self._seen.owned = owned if found[1] == "assigned" else set()

    def look(self) -> Seen:
        assert self._process.poll() is None, "".join(self._lines)
        with self._lock:
            return Seen(set(self._seen.owned), list(self._seen.records))

    def commit(self) -> None:
        """Nothing: it does so by itself."""

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(DEADLINE_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            for thread in self._threads:
                thread.join(DEADLINE_SECONDS)
            for pipe in (self._process.stdout, self._process.stderr):
                assert pipe is not None
                pipe.close()


def _as_record(told: dict[str, Any]) -> Record:
    flat = told.get("headers", [])
    headers = tuple(zip(flat[::2], flat[1::2], strict=True))
    return Record(told["key"], told["payload"], headers, told["ts"], told["partition"], told["offset"])
