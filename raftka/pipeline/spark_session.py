"""PySpark and Java, or what to install; a session with Spark's own Kafka connector."""

import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from raftka.error_text import reason_of, short_reason_of
from raftka.pipeline.connector import with_connector
from raftka.pipeline.errors import ConnectorMissingError, PipelineError, SparkMissingError
from raftka.pipeline.query_errors import cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SPARK_HINT = "pip install 'raftka[spark]'"
_JAVA_HINT = "apt-get install openjdk-17-jre-headless (or -21-), and set JAVA_HOME where `java` is another one"
_JAVA_MIN = 17
# From Java 23 on no session starts: what the Hadoop client of PySpark 4.0 and 4.1 first asks for is not there any more
# (Subject.getSubject, HADOOP-19212). That of 4.2 does without.
_JAVA_MAX = 22
_JAVA_FREE_SPARK = (4, 2)
_SPARK_MIN = 4
_JAVA_SECONDS = 30
_LOG_LINES = 3
# They come into being when an exception does, and bring handlers of their own.
_CONTEXT_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# What Ivy prints if it finds no POM, or a POM and no JAR.
_UNRESOLVED = re.compile(r"unresolved dependency|UNRESOLVED DEPENDENCIES|FAILED DOWNLOADS|download failed")
_NOT_FOUND = re.compile(r":: (\S+#\S+;\S+?)(?:: not found|!\S+)$")
_DEFAULTS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Days and timestamps mean the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.ui.showConsoleProgress": "false",
}


def require_spark() -> str:
    """Return the version of PySpark; Java is there, too.

    Raises:
        SparkMissingError: One of them is not, or is too old.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissingError(f"pipelines need PySpark: {_SPARK_HINT}")
    version = metadata.version("pyspark")
    if int(version.partition(".")[0]) < _SPARK_MIN:
        raise SparkMissingError(f"pipelines need PySpark {_SPARK_MIN}, and {version} is installed: {_SPARK_HINT}")
    require_java(version)
    return version


def require_java(spark: str) -> str:
    """Return the path of a Java that this PySpark runs on.

    Raises:
        SparkMissingError: There is none.
    """
    major, minor = (int(part) for part in spark.split(".")[:2])
    largest = None if (major, minor) >= _JAVA_FREE_SPARK else _JAVA_MAX
    # 18 to 20 and 22 run as well; these two are what Spark is tested with.
    wanted = f"pipelines on PySpark {major}.{minor} need Java 17 or 21{'' if largest else ' or newer'}"
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java") if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME = {home} has no bin/java" if home else "there is none"
        raise SparkMissingError(f"{wanted}, and {where}: {_JAVA_HINT}")
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkMissingError(f"{java} -version: {reason_of(error)}: {_JAVA_HINT}") from None
    release = java_release(said)
    if release is None or not _JAVA_MIN <= release <= (largest or release):
        found = "prints no version" if release is None else f"is Java {release}"
        raise SparkMissingError(f"{wanted}, and {java} {found}: {_JAVA_HINT}")
    return java


def java_release(said: str) -> int | None:
    """Return the release out of `java -version`: 17 of "17.0.15", 8 of "1.8.0_402"; None: none is named."""
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return None if found is None else int(found[1])


def session_options(own: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of a session: defaults, and what a pipeline sets below `spark.`."""
    return dict(_DEFAULTS) | {f"spark.{key}": value for key, value in own.items()}


def open_session(name: str, own: Mapping[str, str], log: Path) -> "SparkSession":
    """Start a JVM and return its session; what the JVM prints goes to `log`, for as long as it lives.

    Raises:
        SparkMissingError: PySpark or Java is missing.
        ConnectorMissingError: The Kafka connector is not here and could not be fetched.
        PipelineError: Spark did not start.
    """
    version = require_spark()
    from pyspark.sql import SparkSession

    # Workers are this Python, which has what this process has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        log.open("ab").close()
    except OSError as error:
        raise PipelineError(f"{log}: {short_reason_of(error)}: Spark's output goes to this file") from None
    options = with_connector(version, session_options(own), os.environ, lambda line: _add_line(log, line))
    builder = SparkSession.builder.appName(f"raftka {name}")
    for key, value in options.items():
        builder = builder.config(key, value)
    loggers_into(log)
    begin = log.stat().st_size
    failures: tuple[type[Exception], ...] = (*spark_errors(), OSError, RuntimeError)
    try:
        with _output_into(log), _same_ctrl_c():
            _start_jvm(options)
            spark = builder.getOrCreate()
    except failures as error:
        lines = _lines_of(log, begin)
        kind = ConnectorMissingError if _is_unresolved(lines) else PipelineError
        why = _why(lines) or cause(str(error)) or error
        raise kind(f"Spark did not start: {why} ({log} has the whole output)") from None
    spark.sparkContext.setLogLevel(own.get("log.level", "WARN"))
    return spark


def _start_jvm(options: Mapping[str, str]) -> None:
    """Start the JVM unless this process has one, in a session of its own.

    PySpark leaves it in our process group: a signal to the group, as of a terminal or a shell, would end it before the
    batch is complete that we wait for. It still ends with us, for it reads a pipe of ours.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:  # noqa: SLF001
        conf = SparkConf(loadDefaults=False)
        conf.setAll(list(options.items()))
        with signals_postponed():
            gateway = launch_gateway(conf, {"start_new_session": True})
        SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001


@contextmanager
def signals_postponed() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C take effect afterwards: a launch that is cut short leaves a JVM that never ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    wanted = [each for each in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def loggers_into(log: Path) -> None:
    """Let PySpark's and py4j's loggers write to a file: to stderr they write pages, of what becomes a line of ours."""
    from pyspark.logger import PySparkLogger

    handler = logging.FileHandler(log, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    own = [PySparkLogger.getLogger(name) for name in _CONTEXT_LOGGERS]
    for logger in (*own, logging.getLogger("py4j"), logging.getLogger("pyspark")):
        for former in list(logger.handlers):
            logger.removeHandler(former)
            former.close()
        logger.addHandler(handler)
        logger.propagate = False
    # py4j tells the root logger of a JVM that is gone, and that one without handlers makes itself one for stderr.
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(handler)


def spark_errors() -> tuple[type[Exception], ...]:
    """Return what Spark raises, and what talking to a JVM that is gone does."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError, ConnectionError, EOFError)


def jvm_pid(spark: "SparkSession") -> int | None:
    """Return the process of a session's JVM; None where it is not a child of ours."""
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001
    return None if process is None else int(process.pid)


@contextmanager
def _output_into(log: Path) -> Iterator[None]:
    """Let processes that are started inside write to a file.

    PySpark gives the JVM our own stdout and stderr, and its output would stand between our lines.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for number in (1, 2):
            os.dup2(descriptor, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(descriptor)


@contextmanager
def _same_ctrl_c() -> Iterator[None]:
    """Leave to Ctrl-C the meaning that it has: PySpark would cancel the batch that runs."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _add_line(log: Path, line: str) -> None:
    # A log that is full keeps nobody from starting.
    with suppress(OSError), log.open("a") as stream:
        stream.write(f"{line}\n")


def _lines_of(log: Path, begin: int) -> list[str]:
    with log.open("rb") as stream:
        stream.seek(begin)
        return stream.read().decode(errors="replace").splitlines()


def _is_unresolved(lines: list[str]) -> bool:
    return any(_UNRESOLVED.search(line) for line in lines)


def _why(lines: list[str]) -> str:
    """Return the lines of the JVM that say why it ended."""
    if _is_unresolved(lines):
        missing = sorted({found[1] for line in lines if (found := _NOT_FOUND.match(line.strip()))})
        return (
            f"spark.jars.packages could not be fetched ({', '.join(missing) or 'no repository answers'}):"
            " spark.jars names files of your own, spark.jars.ivy another cache, spark.jars.ivySettings a file of"
            " settings without the local Maven repository, where a POM without its JAR is enough for this"
        )
    telling = [
        line.strip() for line in lines if re.match(r"(Exception|Error|Caused by|Unrecognized|\S+Exception)", line)
    ]
    return "; ".join(telling[:_LOG_LINES])
