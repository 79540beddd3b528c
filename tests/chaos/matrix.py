"""The runs of `make chaos`, one after the other: each takes MINUTES and a little more, all of them over four hours.

Every nemesis alone, two of them, all together, changes of members, one at acks=1, the registers, and a foreign cluster.
Then transactions, over two hours of them: again every nemesis alone, some of them together, and all of them. Then a
compacted topic.
"""

from typing import NamedTuple

MINUTES = 10.0
# The workload without faults on Apache Kafka: that the clients and the checker know nothing of Raftka.
FOREIGN = "apache-kafka"


class MatrixRun(NamedTuple):
    """One run; `options` are those of `raftka chaos`."""

    name: str
    options: tuple[str, ...]


_ALONE = ("kill", "pause", "partition", "disk", "transfer", "hang-append", "vanish-directory", "few-descriptors")
RUNS = [
    *(MatrixRun(nemesis, ("--nemesis", nemesis)) for nemesis in _ALONE),
    # What rots, and is read again and again: RFC 0002 section 14.
    MatrixRun("disk-and-kill", ("--nemesis", "disk,kill")),
    MatrixRun("mixed", ("--nemesis", ",".join(_ALONE))),
    # Five brokers and their clients share two cores: at the usual rate, latencies would be those of queues alone.
    MatrixRun("membership-and-kill", ("--nemesis", "membership,kill", "--brokers", "5", "--rate", "300")),
    MatrixRun("acks-1", ("--nemesis", "partition", "--acks", "1")),
    MatrixRun("register", ("--nemesis", "kill,pause,partition", "--workload", "register")),
    *(
        MatrixRun(f"txn-{name}", ("--workload", "txn", "--nemesis", nemeses))
        for name, nemeses in (
            *((nemesis, nemesis) for nemesis in _ALONE),
            ("kill-and-transfer", "kill,transfer"),
            ("pause-and-partition", "pause,partition"),
            ("disk-and-kill", "disk,kill"),
            ("mixed", ",".join(_ALONE)),
        )
    ),
    MatrixRun("compacted-mixed", ("--workload", "compacted", "--nemesis", ",".join(_ALONE))),
    MatrixRun("compacted-kill-and-transfer", ("--workload", "compacted", "--nemesis", "kill,transfer")),
    MatrixRun("txn-membership-and-kill", ("--workload", "txn", "--nemesis", "membership,kill", "--brokers", "5")),
]
NAMES = [*(run.name for run in RUNS), FOREIGN]


def command_line(run: MatrixRun, minutes: float, seed: int, out: str) -> list[str]:
    """Return the arguments of `raftka` for one run."""
    return ["chaos", *run.options, "--minutes", f"{minutes:g}", "--seed", str(seed), "--out", out]
