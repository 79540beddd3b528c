"""The jars of Apache Kafka: fetched once by Maven, kept below build/."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

from benchmarks.cluster import BenchmarkError
from benchmarks.report import ROOT

_POM = Path(__file__).with_name("pom.xml")
_CACHE = ROOT / "build" / "benchmarks" / "kafka-jars"
_FETCH_SECONDS = 600.0


def kafka_version() -> str:
    """Return the version of Kafka that pom.xml names."""
    found = re.search(r"<kafka\.version>(.*?)<", _POM.read_text())
    assert found is not None
    return found[1]


def class_path() -> str:
    """Return a class path with every jar; Maven fetches them if pom.xml changed since they were fetched.

    Raises:
        BenchmarkError: No Java, no Maven, or Maven could not resolve them.
    """
    for tool, package in (("java", "openjdk-17-jre-headless"), ("mvn", "maven")):
        if shutil.which(tool) is None:
            raise BenchmarkError(f"{tool} is missing, which Apache Kafka needs here: apt-get install {package}")
    folder = _CACHE / hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]
    # Maven writes jars one by one: a folder with this file in it is whole.
    complete = folder / "complete"
    if not complete.exists():
        _fetch(folder)
        complete.touch()
    return f"{folder}/*"


def _fetch(folder: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    command = ["mvn", "-q", "-B", "-f", str(_POM), *goal]
    found = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    if found.returncode != 0:
        raise BenchmarkError(f"Maven could not fetch Apache Kafka: {found.stdout.strip()[-500:]}")
