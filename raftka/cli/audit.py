"""`raftka audit`: what `raftka check` says, on Spark, of histories that are large or lie in a topic."""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from raftka.cli.check import LevelName, Model, explain_option, level_option, model_option, output_option, tell
from raftka.cli.exit_codes import UnjudgedError
from raftka.cli.lazy_group import Command
from raftka.cli.options import Format, brokers_option, parse_pairs
from raftka.cli.param_types import PATH
from raftka.cli.progress_bar import STARTING_SPARK, underway
from raftka.error_text import reason_of
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError, NoQuorumError
from raftka.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from raftka.check.verdict import Verdict
    from raftka.pipeline.audit.cluster import Cluster
    from raftka.pipeline.audit.parts import HistoryFile


@click.command("audit", cls=Command)
@click.argument("files", nargs=-1, type=PATH, metavar="[FILE...]", help="History files, read as one history.")
@click.option("--topic", metavar="TOPIC", help="Topic whose values are the lines of the history, instead of files.")
@model_option
@level_option
@brokers_option
@click.option(
    "--scratch",
    type=PATH,
    metavar="DIR",
    help="Directory for intermediate data. [default: the system's temporary directory]",
)
@click.option(
    *("--spark", "session"),
    multiple=True,
    metavar="KEY=VALUE",
    help="Spark configuration, such as master=local[8]; repeat for more.",
)
@output_option
@explain_option
def audit(
    files: tuple[Path, ...],
    topic: str | None,
    model: Model,
    level: LevelName,
    brokers: str,
    scratch: Path | None,
    session: tuple[str, ...],
    output: Format,
    explain: bool,
) -> int:
    """Check histories in parallel on Spark. Verdict and exit codes are those of `raftka check`.

    All workers of the session must be able to read the files and the scratch directory.
    """
    if bool(files) == (topic is not None):
        raise click.BadParameter("use either FILE... or --topic")
    own = parse_pairs(session, "--spark")
    if topic is not None:
        # Before Spark, which takes longer to start than this to ask.
        kafka_client.check_service(brokers)
    try:
        with _spark(own, scratch) as (cluster, folder, read_topic):

            def judge() -> "Verdict":
                from raftka.pipeline.audit.parts import HistoryFile

                if topic is None:
                    histories = [HistoryFile(each) for each in files]
                else:
                    with underway(f"reading topic {topic}"):
                        histories = read_topic(brokers, topic)
                with underway("judging"):
                    return _judged(histories, model, level, cluster, folder)

            return tell(judge, model, output, explained=explain)
    except NoQuorumError:
        raise
    except (PipelineError, KafkaClientError, OSError) as error:
        raise UnjudgedError(reason_of(error)) from None


def _judged(files: "list[HistoryFile]", model: Model, level: LevelName, cluster: "Cluster", folder: Path) -> "Verdict":
    if model is Model.LOG:
        from raftka.check.levels import Level
        from raftka.pipeline.audit.logs import audit_log

        return audit_log(files, Level[level.name], cluster, folder)
    if model is Model.APPEND:
        from raftka.pipeline.audit.lists import audit_lists

        return audit_lists(files, cluster)
    from raftka.pipeline.audit.registers import audit_registers

    return audit_registers(files, model.value, cluster, folder)


@contextmanager
def _spark(
    options: dict[str, str], scratch: Path | None
) -> "Iterator[tuple[Cluster, Path, Callable[[str, str], list[HistoryFile]]]]":
    """Open a session and a folder, which end together; what Spark raises becomes a line."""
    from raftka.pipeline.query_errors import query_error
    from raftka.pipeline.spark_session import open_session, require_spark

    require_spark()
    try:
        import numpy  # noqa: F401 - before a session starts
    except ImportError as error:
        raise UnjudgedError(f"{error}; `raftka audit` needs numpy, too: pip install 'raftka[spark,check]'") from None
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from raftka.pipeline.audit.cluster import OnSpark
    from raftka.pipeline.audit.topic import read_topic

    with tempfile.TemporaryDirectory(prefix="raftka-audit-", dir=scratch) as name:
        folder = Path(name)
        (folder / "pieces").mkdir()
        # It stays, for whoever is told to look into it.
        log = folder.parent / f"raftka-audit-{os.getuid()}.log"
        with underway(STARTING_SPARK):
            spark = open_session("audit", {key.removeprefix("spark."): each for key, each in options.items()}, log)
        try:
            yield OnSpark(spark), folder / "pieces", lambda brokers, topic: read_topic(spark, brokers, topic, folder)
        except (PySparkException, Py4JJavaError) as error:
            raise UnjudgedError(query_error(str(error))) from None
        finally:
            spark.stop()
