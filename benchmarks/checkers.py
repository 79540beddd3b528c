"""How fast histories are judged: `raftka.check` on one core, without a broker."""

import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare.verdict import Target, row
from benchmarks.plan import Plan
from raftka.check.log.builder import read_log_history
from raftka.check.log.columns import LogHistory
from raftka.check.log.model import check_log
from raftka.check.register_history import NULL, READ, WRITE, RegisterHistory, Step
from raftka.check.register_model import check_register

_PARTITIONS = 16
_PRODUCERS = 64
_POLLED_AT_ONCE = 100
_CLIENTS = 5


def measure(data_dir: Path, plan: Plan) -> dict[str, Any]:
    """Return operations per second of the log checker, in memory and from a file, and of the register checker."""
    sends, registers, times = (100_000, 20_000, 1) if plan.is_quick else (3_350_000, 200_000, 3)
    path = data_dir / "history.jsonl"
    operations = write_history(path, sends)
    read, judged, whole = [], [], []
    for _ in range(times):
        began = time.perf_counter()
        history = read_log_history([path])
        middle = time.perf_counter()
        _must_be_valid(history)
        ended = time.perf_counter()
        read.append(middle - began)
        judged.append(operations / (ended - middle) / 1e6)
        whole.append(ended - began)
        del history
    size = path.stat().st_size
    path.unlink()
    register = [_register(registers) for _ in range(times)]
    return {
        "rows": [
            row(f"log checker, {operations:,} operations in memory", "M/s", judged, [], Target(">=", 2.0, "value")),
            row(f"log checker, {operations:,} operations from a file", "s", whole, [], Target("<=", 20.0, "value")),
            row(
                f"register checker, {registers:,} operations of {_CLIENTS} clients on one key",
                "/s",
                register,
                [],
                Target(">=", 50_000, "value"),
            ),
        ],
        "what": "raftka.check on one core",
        "file_bytes": size,
        "read_seconds": read,
    }


def _must_be_valid(history: LogHistory) -> None:
    verdict = check_log(history)
    assert verdict.is_valid, verdict.findings


def write_history(path: Path, sends: int, partitions: int = _PARTITIONS, read_at_once: int | None = None) -> int:
    """Write a sound history: producers side by side, one consumer per partition, and the final reads.

    These are of so many records each; None: of a whole partition.
    """
    rng = np.random.default_rng(1)
    tps = rng.integers(0, partitions, sends)
    logs: list[list[list[Any]]] = [[] for _ in range(partitions)]
    positions = [0] * partitions
    operations = sends
    with path.open("w") as stream:
        for number in range(sends):
            tp = int(tps[number])
            log = logs[tp]
            inv = number * 1000
            value = f"v{number}"
            stream.write(
                f'{{"f":"send","type":"ok","proc":{number % _PRODUCERS},"inv":{inv},"ret":{inv + 30_000},"tp":"t-{tp}",'
                f'"acks":"all","idem":true,"val":"{value}","off":{len(log)},"epoch":1}}\n'
            )
            log.append([len(log), value])
            if len(log) - positions[tp] >= _POLLED_AT_ONCE:
                recs = log[positions[tp] :]
                positions[tp] = len(log)
                operations += len(recs)
                line = {"f": "poll", "type": "ok", "proc": 1000 + tp, "inv": inv + 40_000, "ret": inv + 50_000}
                stream.write(json.dumps(line | {"tp": f"t-{tp}", "recs": recs, "hw": len(log)}) + "\n")
        end = sends * 1000 + 1_000_000
        for tp, log in enumerate(logs):
            operations += len(log)
            size = read_at_once or max(1, len(log))
            for begin in range(0, len(log), size):
                line = {"f": "poll", "type": "ok", "proc": 2000 + tp, "inv": end, "ret": end + 1, "final": True}
                stream.write(json.dumps(line | {"tp": f"t-{tp}", "recs": log[begin : begin + size]}) + "\n")
                end += 1
    return operations


def _register(operations: int) -> float:
    """Return operations per second on one key that several clients use all the time."""
    rng = random.Random(1)
    steps: list[Step] = []
    value, free_at = NULL, [0] * _CLIENTS
    for number in range(operations):
        client = min(range(_CLIENTS), key=free_at.__getitem__)
        inv = free_at[client]
        ret = inv + rng.randrange(50, 150)
        free_at[client] = ret + 1
        if rng.random() < 0.5:
            value = number + 1
            steps.append(Step(WRITE, 0, value, inv, ret, number))
        else:
            steps.append(Step(READ, value, 0, inv, ret, number))
    history = RegisterHistory(operations=operations)
    history.steps["k"] = steps
    began = time.perf_counter()
    verdict = check_register(history, "register")
    seconds = time.perf_counter() - began
    assert verdict.is_valid, verdict.findings
    return operations / seconds
