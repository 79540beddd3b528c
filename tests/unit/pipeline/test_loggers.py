"""What PySpark's and py4j's own loggers say goes into Spark's log, and not between our lines."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import logging, sys
from pathlib import Path
from raftka.pipeline.spark_session import loggers_into
loggers_into(Path(sys.argv[1]))
from pyspark.logger import PySparkLogger
PySparkLogger.getLogger("SQLQueryContextLogger").error("pages of JSON")
PySparkLogger.getLogger("DataFrameQueryContextLogger").error("more of them")
logging.getLogger("py4j.clientserver").error("a trace")
logging.error("the JVM is gone")
"""


def test_loggers_of_pyspark_and_py4j_print_nothing(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark comes with the extra spark")
    log = tmp_path / "spark.log"
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(log)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    for words in ("pages of JSON", "more of them", "a trace", "the JVM is gone"):
        assert words in log.read_text()
