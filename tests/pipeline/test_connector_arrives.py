"""The Kafka connector reaches Spark whatever the local Maven repository holds, and without network after the first run."""

import os
import subprocess
from pathlib import Path

from raftka.pipeline.connector import MAVEN_CENTRAL, REPOSITORIES_VARIABLE, connector_jars, with_connector
from raftka.pipeline.spark_session import require_spark
from tests.pipeline.pipelines import Record, new_topic, write
from tests.process.broker_processes import BrokerCluster
from tests.process.command_line import RAFTKA, environment
from tests.unit.pipeline.maven_repository import MavenRepository

_SECONDS = 300.0
_NOBODY = "http://127.0.0.1:1/maven"


def _half_filled(home: Path) -> None:
    """Fill a local Maven repository with POMs without JARs, of what the connector needs and what its POM asks for."""
    needed = [f"{jar.group}:{jar.artifact}:{jar.version}" for jar in connector_jars(require_spark())]
    for coordinates in [*needed, "org.slf4j:slf4j-api:2.0.16", "org.apache.hadoop:hadoop-client-runtime:3.4.1"]:
        group, artifact, version = coordinates.split(":")
        folder = home / ".m2" / "repository" / group.replace(".", "/") / artifact / version
        folder.mkdir(parents=True)
        project = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        pom = f"<project><modelVersion>4.0.0</modelVersion>{project}</project>"
        (folder / f"{artifact}-{version}.pom").write_text(pom)


def test_a_pipeline_starts_beside_a_half_filled_maven_repository_and_later_beside_none_without_network(
    cluster: BrokerCluster, tmp_path: Path
) -> None:
    jars = connector_jars(require_spark())
    # From wherever this machine fetches them, so that the test has a repository of its own that counts its requests.
    own = Path(with_connector(require_spark(), {}, os.environ, print)["spark.jars"].partition(",")[0]).parent
    files = {f"/maven/{jar.path}": (own / jar.name).read_bytes() for jar in jars}
    topic = new_topic(cluster, "orders")
    home, empty, caches = tmp_path / "home", tmp_path / "empty", tmp_path / "caches of mine"
    _half_filled(home)
    empty.mkdir()

    def run(repository: str, at: Path, begin: int) -> "subprocess.CompletedProcess[str]":
        write(cluster.bootstrap, topic, [Record(None, b"value %d" % number) for number in range(begin, begin + 100)])
        command = [*RAFTKA, "pipeline", "run", "archive", "--dir", str(tmp_path / "state"), "--set", f"topics={topic}"]
        # The JVM takes the home directory out of the system's list of users, and not out of HOME.
        command += ["--brokers", cluster.bootstrap, "--set", f"spark.driver.extraJavaOptions=-Duser.home={at}"]
        variables = {REPOSITORIES_VARIABLE: repository, "HOME": str(at), "XDG_CACHE_HOME": str(caches)}
        variables |= {"no_proxy": "127.0.0.1"}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, env=environment() | variables, check=False
        )

    with MavenRepository(files=files) as repository:
        first = run(repository.url, home, 0)
        assert "100 records" in first.stdout, first.stderr
        assert repository.asked == [f"/maven/{jar.path}" for jar in jars]
    second = run(_NOBODY, empty, 100)
    assert "100 records" in second.stdout, second.stderr
    # Spark's own resolver has run neither time.
    assert not any((each / ".ivy2.5.2").exists() or (each / ".ivy2").exists() for each in (home, empty))

    torn = caches / "raftka" / "jars" / jars[0].name
    torn.write_bytes(torn.read_bytes()[:-1])
    third = run(_NOBODY, empty, 200)
    assert third.returncode == 1
    told = f"the Kafka connector is not complete: {torn} is damaged, and it could not be fetched from {_NOBODY}"
    assert told in third.stderr
    assert "spark.jars files of your own" in third.stderr
    assert MAVEN_CENTRAL not in third.stderr
    assert "Traceback" not in third.stderr
