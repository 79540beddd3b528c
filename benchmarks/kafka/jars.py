"""The jars of Apache Kafka, or of another pom.xml: fetched once by Maven, kept below build/."""

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
    """Return a class path with every jar of Apache Kafka.

    Raises:
        BenchmarkError: See `class_path_of`.
    """
    return class_path_of(_POM, _CACHE)


def class_path_of(pom: Path, cache: Path) -> str:
    """Return a class path with every jar that a pom.xml needs; Maven fetches them if it has changed since.

    Args:
        pom: The pom.xml.
        cache: The folder that keeps them, in a folder for each state of the pom.xml.

    Raises:
        BenchmarkError: No Java, no Maven, or Maven could not resolve them.
    """
    for tool, package in (("java", "openjdk-17-jre-headless"), ("mvn", "maven")):
        if shutil.which(tool) is None:
            raise BenchmarkError(f"{tool} is missing, which {pom} needs: apt-get install {package}")
    folder = cache / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    # Maven writes jars one by one: a folder with this file in it is whole.
    complete = folder / "complete"
    if not complete.exists():
        _fetch(pom, folder)
        complete.touch()
    return f"{folder}/*"


def _fetch(pom: Path, folder: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    command = ["mvn", "-q", "-B", "-f", str(pom), *goal]
    found = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    if found.returncode != 0:
        raise BenchmarkError(f"Maven could not fetch what {pom} needs: {found.stdout.strip()[-500:]}")
