"""Schemas that are applied when an archive is read, as docs/pipeline.md shows it, and what passes for JSON of one."""

import re
from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.archive.frames import typed
from raftka.pipeline.archive.reading import read_archive
from tests.pipeline.pipelines import Record, new_topic, run, write
from tests.process.broker_processes import BrokerCluster

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
BASE = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def documented(spark: Any, path: Path, topic: str) -> Any:
    """Run the page's example on an archive and return its DataFrame."""
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (example,) = (each for each in examples if "typed" in each)
    shown = '"/data/cold", "orders"'
    assert example.count(shown) == 1
    names: dict[str, Any] = {"spark": spark}
    exec(compile(example.replace(shown, f"{str(path)!r}, {topic!r}"), str(PAGE), "exec"), names)
    return names["orders"]


def test_a_schema_is_applied_when_the_archive_is_read_and_a_wider_one_later_touches_no_file(
    spark: Any, cluster: BrokerCluster, tmp_path: Path
) -> None:
    topic, path = new_topic(cluster, "orders"), tmp_path / "cold"
    values = [
        b'{"id": 1, "amount": 2.5}',
        b'{"id": 2}',
        b'{"customer": {"name": "x", "since": 2020}, "amount": 4, "id": 3}',
        b"no json",
        b'{"id": "x"}',
        None,
    ]
    write(cluster.bootstrap, topic, [Record(b"k", value, BASE) for value in values])
    run(spark, tmp_path, "archive", topics=topic, to=str(path), brokers=cluster.bootstrap)
    files = {each: each.stat().st_mtime_ns for each in path.rglob("*.parquet")}
    orders = documented(spark, path, topic)
    assert orders.dtypes == [("id", "bigint"), ("amount", "double")]
    assert sorted(map(tuple, orders.collect())) == [(1, 2.5), (2, None), (3, 4.0)]
    schema = "id BIGINT, amount DOUBLE, customer STRUCT<name: STRING>"
    wider = typed(read_archive(spark, path, topic), schema).where("is_json").select("json.*")
    assert wider.dtypes == [*orders.dtypes, ("customer", "struct<name:string>")]
    assert sorted(map(tuple, wider.collect())) == [(1, 2.5, None), (2, None, None), (3, 4.0, ("x",))]
    assert {each: each.stat().st_mtime_ns for each in path.rglob("*.parquet")} == files


JSON = [
    *(b'{"id": 1}', b' {"id": 1}\r\n', b"{}", b'{"id": null, "more": [1, {}]}', '{"id": 1, "s": "}é]"}'.encode()),
    *(b'{"id": 1, "a": {"b": {}}}\n', b'{"id": 1,\n "a": {}}', b'{"a": "]} x {", "b": "}"}'),
]
NO_JSON = [
    *(b"", b" ", b"no json", b"12", b"null", b"[1]", b'[{"id": 1}]', b'{"id":', b'{"id": "x"}', b"\xff\xfe"),
    # An object, and more behind it.
    *(b'{"id": 1} x', b'{"id": 1} x}', b'{"id": 1}}', b'{"id": 1} {"id": 2}', b'{"id": 1},{"id": 2}'),
    *(b'{"id": 1}\x00{}', b'{"id": 1}\f', b'{"id": 1} // }'),
    # ... which is JSON, or closes an array, where the text is put into one.
    *(b'{"id": 1}] x }', b'{"id": 1},{}] }', b'{"id": 1}],[{}', b'{"id": 1},{}],[{}', b'{"id": 1}, }'),
]


@pytest.mark.parametrize("schema", ["id BIGINT", "id BIGINT, a STRING, s STRING"])
def test_an_object_is_json_of_a_schema_only_up_to_its_end(spark: Any, schema: str) -> None:
    rows = spark.createDataFrame([(value,) for value in [*JSON, *NO_JSON, None]], "value BINARY")
    found = {row.value if row.value is None else bytes(row.value): row for row in typed(rows, schema).collect()}
    none = found.pop(None)
    assert (none.json, none.is_json) == (None, None)
    assert [value for value in JSON if not found[value].is_json] == []
    assert [value for value in NO_JSON if found[value].is_json is not False] == []
    assert all((row.json is not None) == row.is_json for row in found.values())
