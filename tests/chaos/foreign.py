"""`python -m tests.chaos.foreign --out DIR`: the workload of `raftka chaos` on three brokers of Apache Kafka."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kafka.kafka_cluster import running_kafka


def main() -> int:
    """Run; the exit code is that of `raftka chaos`."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.foreign", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("options", nargs="*", help="more options of `raftka chaos`, behind `--`")
    arguments = parser.parse_args()
    return run(arguments.out, arguments.minutes, arguments.options)


def run(out: Path, minutes: float, options: Sequence[str]) -> int:
    """Run with more options of `raftka chaos`; return its exit code."""
    program = "import sys; from raftka.cli.main import main; sys.exit(main())"
    with tempfile.TemporaryDirectory(prefix="raftka-chaos-kafka-") as folder, running_kafka(Path(folder)) as kafka:
        where = ["--bootstrap", kafka.bootstrap, "--minutes", f"{minutes:g}", "--out", str(out)]
        return subprocess.run([sys.executable, "-c", program, "chaos", *where, *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
