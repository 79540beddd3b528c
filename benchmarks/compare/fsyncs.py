"""Counts the fsyncs of brokers with strace, in a run of its own: a traced broker is slower."""

import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import native_client
from benchmarks.cluster import Cluster

_SECONDS = 3
_ATTACH_SECONDS = 1.0
_CALLS = "fsync,fdatasync"
_ROW = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(?:fsync|fdatasync)\s*$", re.MULTILINE)


def fsyncs_per_record(cluster: Cluster, topic: str) -> float | str:
    """Return fsyncs of all brokers by acknowledged record, one in flight; words where they cannot be counted."""
    if shutil.which("strace") is None:
        return "not counted: strace is not installed"
    with tempfile.TemporaryDirectory() as folder:
        summary = Path(folder) / "summary"
        attached = [argument for pid in cluster.pids.values() for argument in ("-p", str(pid))]
        command = ["strace", "-f", "-c", "-e", f"trace={_CALLS}", "-o", str(summary), *attached]
        tracer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            # All threads are stopped once while it attaches.
            time.sleep(_ATTACH_SECONDS)
            if tracer.poll() is not None:
                assert tracer.stderr is not None
                return f"not counted: {tracer.stderr.read().strip().splitlines()[-1]}"
            where = {"brokers": cluster.bootstrap, "topic": topic}
            options = {"mode": "single", "seconds": _SECONDS, "size": 1024, "conf": {"linger.ms": 0}}
            records = int(native_client.run("producer", {**where, **options}).numbers["records"])
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.communicate(timeout=30.0)
        calls = sum(int(found) for found in _ROW.findall(summary.read_text()))
    return round(calls / max(records, 1), 2)
