"""Spark's Kafka connector: which JARs it is made of, where they are fetched, and where they are kept (RFC 0010)."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from raftka.pipeline.errors import ConnectorMissingError, PipelineError
from raftka.pipeline.jar_cache import Jar, JarCache, JarMissingError, Repository

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
REPOSITORIES_VARIABLE = "RAFTKA_JAR_REPOSITORIES"
CACHE_VARIABLE = "RAFTKA_JAR_CACHE"
_JARS, _PACKAGES, _REPOSITORIES = "spark.jars", "spark.jars.packages", "spark.jars.repositories"
# They steer Spark's own resolver, which the connector does not pass through.
_OF_IVY = ("spark.jars.ivy", "spark.jars.ivySettings", "spark.jars.excludes")
# Spark splits its list at commas, before and after it decodes URIs; it expands patterns, cuts fragments off, and leaves
# out a file that it then does not find.
_UNFIT = re.compile(r"[,#%*?\[\]{}\\]")
_SPARK = "org.apache.spark"

# By minor release of PySpark. What else the connector's POM asks for, PySpark carries: hadoop-client, slf4j, snappy,
# lz4, jsr305, scala-parallel-collections.
_PINNED = {
    "4.0": (
        Jar(
            _SPARK,
            "spark-sql-kafka-0-10_2.13",
            "4.0.0",
            467_590,
            "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
        ),
        Jar(
            _SPARK,
            "spark-token-provider-kafka-0-10_2.13",
            "4.0.0",
            64_975,
            "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
        ),
        Jar(
            "org.apache.kafka",
            "kafka-clients",
            "3.9.0",
            9_204_801,
            "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
        ),
        Jar(
            "org.apache.commons",
            "commons-pool2",
            "2.12.0",
            150_048,
            "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
        ),
    ),
}


def connector_jars(version: str) -> tuple[Jar, ...]:
    """Return the JARs of the connector for a PySpark.

    Of each minor release the first connector is taken. It runs on all patch releases of it.

    Raises:
        ConnectorMissingError: No JARs are pinned for this PySpark.
    """
    minor = ".".join(version.split(".")[:2])
    if minor not in _PINNED:
        raise ConnectorMissingError(
            f"Raftka pins no Kafka connector for PySpark {version}, only for {', '.join(_PINNED)}:"
            f" {_JARS} names the files of one, {_PACKAGES} its coordinates"
        )
    return _PINNED[minor]


def with_connector(
    version: str, options: Mapping[str, str], environment: Mapping[str, str], told: Callable[[str], None]
) -> dict[str, str]:
    """Return the configuration of a session with the connector's JARs in it, which are then on this machine.

    Whoever sets `spark.jars` or `spark.jars.packages` brings the connector among them: nothing is added.

    Args:
        version: PySpark's.
        options: The configuration so far.
        environment: Names repositories and the cache, where the options name none.
        told: Gets a line for each file that was fetched.

    Raises:
        ConnectorMissingError: A JAR is not here and could not be fetched; the line names file, repository and options.
        PipelineError: An option that has no effect, a repository that is none, or a folder that Spark cannot read from.
    """
    if _JARS in options or _PACKAGES in options:
        return dict(options)
    jars = connector_jars(version)
    for key in _OF_IVY:
        if key in options:
            raise PipelineError(
                f"{key}: belongs to Spark's resolver, which fetches nothing without {_PACKAGES};"
                f" the connector would be {jars[0].coordinates}"
            )
    named = options.get(_REPOSITORIES) or environment.get(REPOSITORIES_VARIABLE) or MAVEN_CENTRAL
    # The JVM does not get them: its command line is for everyone to read, and a URL may have a password.
    kept = {key: value for key, value in options.items() if key != _REPOSITORIES}
    try:
        repositories = [Repository.parse(each.strip()) for each in named.split(",") if each.strip()]
    except ValueError as error:
        raise PipelineError(f"{_REPOSITORIES}: {error}") from None
    folder = cache_folder(environment)
    if found := _UNFIT.search(str(folder)):
        raise PipelineError(
            f"{folder}: Spark takes no {found[0]!r} in the path of a JAR: {CACHE_VARIABLE} names another folder"
        )
    cache = JarCache(folder, repositories, told)
    try:
        paths = [cache.path_of(jar) for jar in jars]
    except JarMissingError as error:
        raise ConnectorMissingError(
            f"the Kafka connector is not complete: {error}. {_REPOSITORIES} or {REPOSITORIES_VARIABLE} names another"
            f" repository, {CACHE_VARIABLE} another folder, {_JARS} files of your own:"
            f" {', '.join(jar.name for jar in jars)}"
        ) from None
    return kept | {_JARS: ",".join(str(path) for path in paths)}


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the absolute folder where JARs are kept; it need not exist.

    Raises:
        ConnectorMissingError: There is no home directory, and no variable names a folder.
    """
    if named := environment.get(CACHE_VARIABLE):
        return Path(named).absolute()
    # A relative one does not count: XDG Base Directory Specification.
    if (cache := environment.get("XDG_CACHE_HOME")) and Path(cache).is_absolute():
        return Path(cache) / "raftka" / "jars"
    try:
        return Path("~").expanduser().absolute() / ".cache" / "raftka" / "jars"
    except RuntimeError:
        raise ConnectorMissingError(
            f"no home directory to keep the Kafka connector in: {CACHE_VARIABLE} names a folder for it"
        ) from None
