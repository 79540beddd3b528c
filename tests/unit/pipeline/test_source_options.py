"""What a pipeline reads its topics with, and what of it a person may set otherwise."""

from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.run import PipelineRun
from raftka.pipeline.settings import PipelineSettings, convert


@pytest.mark.parametrize(("own", "polled"), [({}, "10000"), ({"kafka.max.poll.records": "7"}, "7")])
def test_records_are_polled_in_large_numbers_unless_set_otherwise(own: dict[str, str], polled: str) -> None:
    values = {"kind": "archive", "brokers": "a:1", "topics": "t", **own}
    spark: Any = None
    run = PipelineRun("p", convert(values, PipelineSettings, "p"), spark, Path(), Path())
    options = run.source_options()
    assert (options["kafka.bootstrap.servers"], options["kafka.max.poll.records"]) == ("a:1", polled)
