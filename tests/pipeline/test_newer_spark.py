"""PySpark 4.2 with the connector that goes with it: the archive, its restart, and its proof."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needed_tools import needs_tools
from tests.pipeline.pipelines import Record, new_topic, write
from tests.process.broker_processes import BrokerCluster
from tests.process.command_line import RAFTKA, environment

_POM = Path(__file__).parent / "newer_spark" / "pom.xml"
_PYSPARK = "4.2"
_BUILD = Path(__file__).parents[2] / "build" / "newer-spark"
_INSTALL_SECONDS = 600.0
_COMMAND_SECONDS = 300.0


def _done(command: list[str], seconds: float, **variables: str) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environment() | variables,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def _installed() -> tuple[Path, str]:
    """Return where PySpark is, and the connector's files, with commas between them; fetched once, half a gigabyte."""
    folder = _BUILD / hashlib.sha256(_POM.read_bytes() + _PYSPARK.encode()).hexdigest()[:12]
    pyspark, jars, complete = folder / "pyspark", folder / "jars", folder / "complete"
    if not complete.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(pyspark)]
        _done([*pip, f"pyspark=={_PYSPARK}.*"], _INSTALL_SECONDS)
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        _done(["mvn", "-q", "-B", "-f", str(_POM), *copy], _INSTALL_SECONDS)
        complete.touch()
    return pyspark, ",".join(str(each) for each in sorted(jars.glob("*.jar")))


@pytest.mark.long
@needs_tools("mvn")  # It fetches the connector.
def test_the_archive_runs_on_a_newer_spark_with_jars_of_ones_own(cluster: BrokerCluster, tmp_path: Path) -> None:
    pyspark, files = _installed()
    # Before all others on the path, so that the environment keeps the PySpark that it has.
    first = {"PYTHONPATH": str(pyspark)}
    version = _done([sys.executable, "-c", "import pyspark; print(pyspark.__version__)"], 60.0, **first)
    assert version.startswith(_PYSPARK)
    assert files.count(".jar") == 4
    topic = new_topic(cluster, "orders")
    settings = {"topics": topic, "brokers": cluster.bootstrap, "spark.jars": files, "trigger": "available-now"}
    run = [*RAFTKA, "pipeline", "run", "archive", "--dir", str(tmp_path / "state")]
    run += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    for begin in (0, 1_000):
        write(cluster.bootstrap, topic, [Record(None, b"value %d" % number) for number in range(begin, begin + 1_000)])
        assert "1,000 records" in _done(run, _COMMAND_SECONDS, **first)
    archive = str(tmp_path / "state" / "archive" / "archive")
    verify = [*RAFTKA, "archive", "verify", archive, "--brokers", cluster.bootstrap, "--spark", f"jars={files}"]
    assert "the archive is whole: 2,000 offsets proven" in _done(verify, _COMMAND_SECONDS, **first)
