"""PySpark, Java and the connector: what is missing is said, and what Spark says is put in a line."""

import importlib.util
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from raftka.pipeline import spark_session
from raftka.pipeline.errors import PipelineError, SparkMissingError
from raftka.pipeline.query_errors import is_jvm_ending, query_error
from raftka.pipeline.spark_session import java_release, require_java, require_spark, session_options
from raftka.pipeline.topic_identity import compare, how_to_make
from tests.pipeline.without_spark import names_and_marks


def java(folder: Path, said: str) -> None:
    """Make a Java that says which one it is."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("said", "release"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21"', 21),
        ("", None),
    ],
)
def test_the_release_of_a_java_is_what_it_says(said: str, release: int | None) -> None:
    assert java_release(said) == release


def test_java_is_looked_for_where_java_home_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "new"))
    with pytest.raises(
        SparkMissingError, match=r"4\.0 need Java 17 or 21, and JAVA_HOME = .*/new has no bin/java: apt-get"
    ):
        require_java("4.0.5")
    java(tmp_path / "new", 'openjdk version "21.0.1"')
    assert require_java("4.0.5") == str(tmp_path / "new" / "bin" / "java")
    java(tmp_path / "old", 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(SparkMissingError, match="is Java 11"):
        require_java("4.0.5")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkMissingError, match="there is none"):
        require_java("4.0.5")


@pytest.mark.parametrize(
    ("spark", "release", "is_taken"),
    [
        ("4.0.5", "16.0.2", False),
        ("4.0.5", "17.0.15", True),
        ("4.0.5", "22.0.2", True),
        ("4.0.5", "23.0.1", False),
        ("4.0.5", "25.0.1", False),
        ("4.1.1", "25.0.1", False),
        ("4.2.0", "25.0.3", True),
        ("4.2.0", "11.0.2", False),
        ("5.0.0", "29", True),
    ],
)
def test_a_java_that_is_too_old_or_too_new_for_the_spark_at_hand_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: str, release: str, is_taken: bool
) -> None:
    java(tmp_path, f'openjdk version "{release}"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if is_taken:
        assert require_java(spark) == str(tmp_path / "bin" / "java")
        return
    with pytest.raises(SparkMissingError) as raised:
        require_java(spark)
    said = str(raised.value)
    assert f"PySpark {spark[:3]} need Java 17 or 21" in said
    assert f"bin/java is Java {release.partition('.')[0]}: apt-get install openjdk-17-jre-headless" in said


def test_without_pyspark_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java(tmp_path, 'openjdk version "17"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SparkMissingError, match=r"pip install 'raftka\[spark\]'"):
        require_spark()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(metadata, "version", lambda _: "3.5.1")
    with pytest.raises(SparkMissingError, match=r"need PySpark 4, and 3\.5\.1 is installed"):
        require_spark()
    monkeypatch.setattr(metadata, "version", lambda _: "4.0.5")
    assert require_spark() == "4.0.5"


def test_a_session_has_the_defaults_and_what_a_pipeline_sets() -> None:
    options = session_options({"driver.memory": "2g"})
    assert options["spark.driver.memory"] == "2g"
    assert options["spark.master"] == "local[2]"


def test_why_a_jvm_ended_is_read_out_of_its_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("Exception from before\n")
    begin = log.stat().st_size
    with log.open("a") as stream:
        stream.write(
            ":: problems summary ::\n\t::          UNRESOLVED DEPENDENCIES         ::\n"
            "\t:: org.apache.spark#spark-sql-kafka-0-10_2.13;9.9.9: not found\n"
        )
    lines = spark_session._lines_of(log, begin)
    assert spark_session._is_unresolved(lines)
    said = spark_session._why(lines)
    assert said.startswith(
        "spark.jars.packages could not be fetched (org.apache.spark#spark-sql-kafka-0-10_2.13;9.9.9)"
    )
    assert spark_session._why(spark_session._lines_of(log, 0)).count("before") == 0
    assert spark_session._why(spark_session._lines_of(log, log.stat().st_size)) == ""


def test_a_pom_without_its_jar_is_told_as_what_it_is() -> None:
    lines = [
        "\t::              FAILED DOWNLOADS            ::",
        "\t:: ^ see resolution messages for details  ^ ::",
        "\t:: org.slf4j#slf4j-api;2.0.16!slf4j-api.jar",
        'Exception in thread "main" java.lang.RuntimeException: [download failed: org.slf4j#slf4j-api;2.0.16!slf4j-api.jar]',
    ]
    assert spark_session._is_unresolved(lines)
    said = spark_session._why(lines)
    assert said.startswith("spark.jars.packages could not be fetched (org.slf4j#slf4j-api;2.0.16):")
    assert "spark.jars.ivySettings" in said


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark comes with the extra spark")
    monkeypatch.setattr(spark_session, "require_spark", lambda: "4.0.0")
    with pytest.raises(PipelineError, match=r"nowhere/spark\.log: No such file or directory: Spark's output goes to"):
        spark_session.open_session("any", {}, tmp_path / "nowhere" / "spark.log")


def suite_without_java(folder: Path, tests: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run tests on Spark in a pytest of their own, for which there is no Java."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("RAFTKA_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", tests],
        cwd=Path(__file__).parents[3],
        env=inherited | {"JAVA_HOME": str(folder)} | variables,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_tests_on_spark_that_are_skipped_are_counted_and_the_reason_is_told_at_the_end(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark comes with the extra spark")
    done = suite_without_java(tmp_path, "tests/pipeline")
    assert done.returncode == 0, done.stdout
    told = re.search(r"=+ (\d+) tests on Spark were SKIPPED =+\n(\d+): pipelines .* need Java 17 or 21", done.stdout)
    assert told is not None, done.stdout
    assert told[1] == told[2]
    last = done.stdout.splitlines()[-1]
    assert f" {told[1]} skipped, " in last
    # The long ones are no part of it, skipped or not.
    assert "deselected" in last
    assert "passed" not in last


def test_tests_that_cannot_be_imported_are_known_by_their_names_and_marks() -> None:
    module = "@pytest.mark.long\n@pytest.mark.skipif(True, reason='r')\ndef test_one(): ...\ndef test_two(): ...\ndef no(): ..."
    assert names_and_marks(f"import nowhere\n{module}") == {"test_one": ["long"], "test_two": []}
    assert names_and_marks(f"pytestmark = pytest.mark.process\n{module}") == {
        "test_one": ["process", "long"],
        "test_two": ["process"],
    }
    both = "pytestmark = [pytest.mark.process, pytest.mark.long]\ndef test_one(): ..."
    assert names_and_marks(both) == {"test_one": ["process", "long"]}


def test_with_raftka_need_spark_they_fail_instead(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark comes with the extra spark")
    one = "tests/pipeline/test_archive.py::test_a_schema_that_values_could_not_be_read_with_is_refused_before_the_first_batch"
    done = suite_without_java(tmp_path, one, RAFTKA_NEED_SPARK="1")
    assert done.returncode == 1, done.stdout
    assert "SparkMissingError: pipelines on PySpark" in done.stdout
    assert "SKIPPED" not in done.stdout


def test_a_spark_that_ends_while_it_starts_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="pyspark comes with the extra spark")
    from py4j.protocol import Py4JError

    def start(_: object) -> None:
        raise Py4JError(
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.lang.UnsupportedOperationException: getSubject is not supported\n\tat a.b"
        )

    monkeypatch.setattr(spark_session, "require_spark", lambda: "4.0.0")
    monkeypatch.setattr(spark_session, "_start_jvm", start)
    monkeypatch.setattr(spark_session, "loggers_into", lambda _: None)
    monkeypatch.setattr(spark_session, "with_connector", lambda _version, options, *_: options)
    with pytest.raises(
        PipelineError,
        match=r"^Spark did not start: UnsupportedOperationException: getSubject is not supported \(.*log has the whole output\)$",
    ):
        spark_session.open_session("any", {}, tmp_path / "spark.log")


@pytest.mark.parametrize(
    ("error", "is_ending"),
    [
        (ConnectionRefusedError(111, "Connection refused"), True),
        (EOFError(), True),
        (RuntimeError("Job 3 cancelled because SparkContext was shut down"), True),
        (RuntimeError("no space left"), False),
    ],
)
def test_the_end_of_a_jvm_is_known_by_what_it_breaks(error: Exception, is_ending: bool) -> None:
    assert is_jvm_ending(error) is is_ending


SPARK_FAILED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted. SQLSTATE: XXKST
=== Streaming Query ===
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "somewhere.py", line 1, in call
    raise PipelineError(1)
raftka.pipeline.errors.PipelineError: batch 3 has offsets 4 to 9 of orders-0, and should have 5 to 9
"""


def test_an_error_of_our_own_in_a_batch_is_the_reason() -> None:
    assert query_error(SPARK_FAILED) == "batch 3 has offsets 4 to 9 of orders-0, and should have 5 to 9"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "[STREAM_FAILED] terminated\njava.lang.IllegalStateException: Partition orders-0's offset moved: data may have been lost",
            "records are gone that were not read yet",
        ),
        (
            "[X] top\nCaused by: java.io.IOException: No space left on device\n\tat a.b",
            "IOException: No space left on device",
        ),
        ("top\nOSError: the machine went away", "the query failed: OSError: the machine went away"),
        ("[SOME_CONDITION] words for people", "the query failed: words for people"),
        # As a plan has it.
        (
            "[UNRESOLVED_COLUMN] A column `keyy` cannot be resolved.\n+- Relation [failOnDataLoss=true, topics=a]",
            "the query failed: A column `keyy` cannot be resolved.",
        ),
        (
            "An error occurred while calling o53.load.\n: java.lang.IllegalArgumentException: no such thing\n\tat a.b",
            "the query failed: IllegalArgumentException: no such thing",
        ),
        ("", "Spark gives no reason"),
    ],
)
def test_pages_of_stack_traces_become_a_line(text: str, reason: str) -> None:
    found = query_error(text)
    assert reason in found
    assert "\n" not in found
    assert len(query_error(text * 1000)) <= 600


def test_a_topic_of_the_brokers_own_is_not_for_people_to_make() -> None:
    assert how_to_make("orders") == "`raftka topic create orders` creates it"
    assert how_to_make("__raftka_telemetry") == "brokers make it themselves once they are told to use it"


def test_a_topic_with_another_id_is_another_topic() -> None:
    assert compare({"a": "1"}, {"a": "1", "b": "2"}) is None
    assert compare({"a": "1", "gone": "3"}, {"a": "1"}) is None
    said = compare({"a": "1"}, {"a": "2"})
    assert said is not None
    assert said.startswith("topic a was deleted and created again (its id was 1 and is 2)")
