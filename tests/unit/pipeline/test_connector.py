"""The Kafka connector of a session: its JARs, whence, whereto, and the one line if one is not to be had."""

from pathlib import Path

import pytest

from raftka.config import load_config
from raftka.pipeline import connector
from raftka.pipeline.connector import (
    CACHE_VARIABLE,
    REPOSITORIES_VARIABLE,
    cache_folder,
    connector_jars,
    with_connector,
)
from raftka.pipeline.errors import ConnectorMissingError, PipelineError
from tests.unit.pipeline.maven_repository import JARS, MavenRepository, ignore


@pytest.fixture(autouse=True)
def _pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "_PINNED", {"4.0": JARS})
    # Whatever proxy this machine has: the repositories are on loopback.
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def test_every_pinned_connector_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    # What the extra `spark` installs is among them.
    assert connector_jars("4.0.5") == connector_jars("4.0.0")
    for jars in connector._PINNED.values():
        assert [jar.artifact for jar in jars] == [
            "spark-sql-kafka-0-10_2.13",
            "spark-token-provider-kafka-0-10_2.13",
            "kafka-clients",
            "commons-pool2",
        ]
        assert all(len(jar.sha256) == 64 and jar.size > 50_000 for jar in jars)


def test_a_pyspark_without_a_pinned_connector_is_told_with_the_options_that_help() -> None:
    with pytest.raises(
        ConnectorMissingError, match=r"^Raftka pins no Kafka connector for PySpark 4\.3\.1, only for 4\.0: spark\.jars "
    ):
        with_connector("4.3.1", {}, {}, ignore)


@pytest.mark.parametrize("key", ["spark.jars", "spark.jars.packages"])
def test_jars_brought_along_are_taken_without_a_repository_or_a_cache(key: str, tmp_path: Path) -> None:
    options = {key: "mine", "spark.jars.repositories": "https://127.0.0.1:1", "spark.jars.ivySettings": "mine.xml"}
    environment = {CACHE_VARIABLE: str(tmp_path / "cache")}
    assert with_connector("4.0.5", options, environment, ignore) == options
    assert with_connector("9.9.9", options, environment, ignore) == options
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_named_by_key", [True, False])
def test_jars_come_from_the_repository_that_is_named_and_no_other(tmp_path: Path, is_named_by_key: bool) -> None:
    told: list[str] = []
    with MavenRepository() as repository, MavenRepository() as other:
        options = {"spark.ui.enabled": "false"}
        environment = {CACHE_VARIABLE: str(tmp_path / "a b"), REPOSITORIES_VARIABLE: other.url}
        if is_named_by_key:
            options["spark.jars.repositories"] = repository.url
        else:
            environment[REPOSITORIES_VARIABLE] = f"{repository.url}/, {other.url}"
        done = with_connector("4.0.5", options, environment, told.append)
        assert repository.asked == [f"/maven/{jar.path}" for jar in JARS]
        assert other.asked == []
    # The repository is not the JVM's to know.
    assert done == {
        "spark.ui.enabled": "false",
        "spark.jars": ",".join(str(tmp_path / "a b" / jar.name) for jar in JARS),
    }
    assert told == [f"fetched {jar.name} from {repository.url} into {tmp_path / 'a b'}" for jar in JARS]


def test_an_unreachable_repository_is_one_error_with_the_file_the_repository_and_the_options(tmp_path: Path) -> None:
    environment = {CACHE_VARIABLE: str(tmp_path), REPOSITORIES_VARIABLE: "http://me:secret@127.0.0.1:1/maven"}
    with pytest.raises(ConnectorMissingError) as raised:
        with_connector("4.0.5", {}, environment, ignore)
    assert str(raised.value) == (
        "the Kafka connector is not complete: first-1.0.jar could not be fetched from http://127.0.0.1:1/maven"
        " (Connection refused). spark.jars.repositories or RAFTKA_JAR_REPOSITORIES names another repository,"
        " RAFTKA_JAR_CACHE another folder, spark.jars files of your own: first-1.0.jar, second-2.0.jar"
    )


@pytest.mark.parametrize("key", ["spark.jars.ivy", "spark.jars.ivySettings", "spark.jars.excludes"])
def test_options_of_sparks_resolver_are_refused_without_its_packages(key: str) -> None:
    with pytest.raises(PipelineError, match=f"^{key}: belongs to .* spark.jars.packages; .* be org.raftka:first:1.0$"):
        with_connector("4.0.5", {key: "x"}, {}, ignore)


@pytest.mark.parametrize("text", ["nowhere", "ftp://host/maven", "https:///maven", "http://[::1/maven"])
def test_a_repository_that_is_no_url_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"^spark\.jars\.repositories: "):
        with_connector("4.0.5", {"spark.jars.repositories": text}, {CACHE_VARIABLE: str(tmp_path)}, ignore)


@pytest.mark.parametrize("name", ["a,b", "a#b", "a%20b", "a*"])
def test_a_cache_that_spark_could_not_read_from_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"Spark takes no '.' in the path of a JAR: RAFTKA_JAR_CACHE names another"):
        with_connector("4.0.5", {}, {CACHE_VARIABLE: str(tmp_path / name)}, ignore)


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nowhere/me")
    assert cache_folder({}) == Path("/nowhere/me/.cache/raftka/jars")
    assert cache_folder({"XDG_CACHE_HOME": "/var/cache"}) == Path("/var/cache/raftka/jars")
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == Path("/nowhere/me/.cache/raftka/jars")
    assert cache_folder({"XDG_CACHE_HOME": "/var/cache", CACHE_VARIABLE: "/jars"}) == Path("/jars")
    assert cache_folder({CACHE_VARIABLE: "jars"}) == Path.cwd() / "jars"


def test_without_a_home_directory_the_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def expanduser(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", expanduser)
    with pytest.raises(ConnectorMissingError, match="RAFTKA_JAR_CACHE names a folder"):
        cache_folder({})


def test_a_broker_takes_the_variables_for_no_options_of_its_own() -> None:
    load_config({"node.id": 1}, {CACHE_VARIABLE: "/jars", REPOSITORIES_VARIABLE: "https://mirror"})
