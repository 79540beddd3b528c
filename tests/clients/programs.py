"""The programs for clients in other languages: fetched and built below build/ when a test first needs them."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from benchmarks.kafka.jars import class_path, class_path_of

FOLDER = Path(__file__).parent
_BUILD = FOLDER.parents[1] / "build" / "clients"
# Dependencies are fetched on the first run.
_BUILD_SECONDS = 900.0
# A small machine runs three brokers beside it.
JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def java_program() -> list[str]:
    """Return the command of the Java client's program, which Java compiles when it starts."""
    return [*JAVA, "-cp", class_path(), str(FOLDER / "java" / "Driver.java")]


def go_program(name: str) -> list[str]:
    """Return the command of a Go client's program, built."""
    _BUILD.mkdir(parents=True, exist_ok=True)
    built = _BUILD / name
    _run(["go", "build", "-buildvcs=false", "-o", str(built), f"./{name}"], FOLDER / "go")
    return [str(built)]


def go_program_of(source: Path) -> list[str]:
    """Return the command of a Go program in one file, built with the clients that the programs here have."""
    _BUILD.mkdir(parents=True, exist_ok=True)
    built = _BUILD / source.stem
    _run(["go", "build", "-buildvcs=false", "-o", str(built), str(source)], FOLDER / "go")
    return [str(built)]


def java_program_of(source: Path) -> list[str]:
    """Return the command of a Java program in one file, which Java compiles when it starts."""
    return [*JAVA, "-Dlog4j2.level=OFF", "-cp", class_path(), str(source)]


def streams_class_path() -> str:
    """Return a class path with the jars of Kafka Streams and of its own tests."""
    return class_path_of(FOLDER / "java" / "streams" / "pom.xml", _BUILD / "streams-jars")


def flink_program() -> list[str]:
    """Return the command of the Flink job, compiled."""
    source = FOLDER / "java" / "flink"
    jars, classes = class_path_of(source / "pom.xml", _BUILD / "flink-jars"), _BUILD / "flink"
    # Flink's class loader does not see classes that Java compiles when it starts.
    _run(["javac", "-cp", jars, "-d", str(classes), str(source / "FlinkSink.java")], source)
    # A job and its cluster need more than a client does.
    return [*JAVA, "-Xmx512m", "-Dlog4j2.level=WARN", "-cp", f"{classes}:{jars}", "FlinkSink"]


def node_program() -> list[str]:
    """Return the command of the Node client's program, beside what it needs."""
    source = FOLDER / "node"
    lock = source / "package-lock.json"
    folder = _BUILD / f"node-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    complete = folder / "complete"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "driver.js"):
        shutil.copy(source / name, folder / name)
    if not complete.exists():
        _run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
        complete.touch()
    return ["node", str(folder / "driver.js")]


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
