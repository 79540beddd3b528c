"""Settings of pipelines: where they come from, and what is refused."""

import sys
from pathlib import Path
from typing import Any

import pytest

from raftka.pipeline.archive.settings import Settings as ArchiveSettings
from raftka.pipeline.config_file import PipelineFile, load_file
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.kinds import KINDS, load_kind
from raftka.pipeline.settings import PipelineSettings, convert, parse_duration

FILE = """
brokers = "127.0.0.1:1234"
dir = "state"

[pipelines.cold]
kind = "archive"
topics = ["orders", "payments"]
max.offsets.per.trigger = 500
kafka.security.protocol = "SSL"
spark.driver.memory = "2g"
spark.ui.enabled = true

[pipelines.other]
kind = "copy"
topics.pattern = "orders-.*"
brokers = "127.0.0.1:5678"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "pipelines.toml"
    path.write_text(text)
    return path


def read(folder: Path, text: str, environment: dict[str, str] | None = None) -> PipelineFile:
    return load_file(write(folder, text), environment or {})


def archive(found: PipelineFile, name: str = "cold", **flags: str) -> ArchiveSettings:
    return convert(found.values_of(name, KINDS, flags), ArchiveSettings, found.where(name))


def test_a_section_is_read_with_its_dotted_keys_and_what_is_passed_on(tmp_path: Path) -> None:
    settings = archive(read(tmp_path, FILE))
    assert settings.topics == ("orders", "payments")
    assert settings.max_offsets_per_trigger == 500
    assert settings.brokers == "127.0.0.1:1234"
    assert settings.kafka == {"security.protocol": "SSL"}
    assert settings.spark == {"driver.memory": "2g", "ui.enabled": "true"}
    assert settings.trigger_seconds is None


def test_a_flag_goes_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    assert read(tmp_path, FILE).values_of("other", KINDS, {})["brokers"] == "127.0.0.1:5678"
    told = read(tmp_path, FILE, {"RAFTKA_BROKERS": "127.0.0.1:9"})
    assert told.values_of("other", KINDS, {})["brokers"] == "127.0.0.1:9"
    assert told.values_of("cold", KINDS, {})["brokers"] == "127.0.0.1:9"
    assert archive(told, brokers="127.0.0.1:10", topics="a, b", trigger="30s").brokers == "127.0.0.1:10"
    assert archive(told, topics="a, b", trigger="30s").topics == ("a", "b")
    assert archive(told, trigger="30s").trigger_seconds == 30.0


def test_places_in_a_file_are_meant_from_where_it_lies(tmp_path: Path) -> None:
    assert read(tmp_path, FILE).dir == tmp_path / "state"
    assert read(tmp_path, FILE, {"RAFTKA_PIPELINE_DIR": "/elsewhere"}).dir == Path("/elsewhere")
    assert read(tmp_path, FILE, {"RAFTKA_PIPELINE_DIR": ""}).dir == tmp_path / "state"
    path = write(tmp_path, FILE)
    assert load_file(None, {"RAFTKA_PIPELINES": str(path)}).path == path


def test_a_relative_folder_of_an_archive_is_meant_from_where_the_file_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def placed(kind: str, told: str, **flags: str) -> Any:
        found = read(tmp_path, f'[pipelines.cold]\nkind = "{kind}"\ntopics = ["a"]\nto = "{told}"\n')
        return found.values_of("cold", KINDS, flags)["to"]

    monkeypatch.chdir("/")
    assert placed("archive", "cold") == str(tmp_path / "cold")
    assert placed("telemetry", "../tables") == str(tmp_path / "../tables")
    assert placed("archive", "/data/cold") == "/data/cold"
    assert placed("archive", "s3://bucket/cold") == "s3://bucket/cold"
    # A flag is meant from where it is typed, and a topic is no place.
    assert placed("archive", "cold", to="other") == "other"
    assert placed("copy", "orders-copy") == "orders-copy"


def test_a_kind_needs_no_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = load_file(None, {})
    assert found.path is None
    assert archive(found, "archive", topics="orders").topics == ("orders",)
    with pytest.raises(PipelineError, match=r"there is no pipeline cold: pipelines\.toml does not define it"):
        found.values_of("cold", KINDS, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("brokers = [", "not TOML"),
        ("port = 1", "unknown key port"),
        ("dir = 1", "dir must be text"),
        ("pipelines = 1", "must be tables"),
        ("pipelines.cold = 1", "must be tables"),
        ('[pipelines."a/b"]\nkind = "copy"', "is not a valid name of a pipeline"),
    ],
)
def test_a_file_that_is_none_of_pipelines_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        read(tmp_path, text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_file(tmp_path / "nowhere.toml", {})


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "either topics or topics.pattern is needed"),
        ({"topics": "a", "topics.pattern": "b"}, "either topics or topics.pattern is needed"),
        ({"topics.pattern": "("}, "topics.pattern: not a regular expression"),
        ({"topics": "a", "topic": "b"}, "unknown key topic "),
        ({"topics": "a", "version": "0"}, "version: expected int >= 1"),
        ({"topics": "a", "version": "x"}, "version: expected int"),
        ({"topics": "a", "trigger": "soon"}, "trigger: 'soon' is not a duration .* or available-now"),
        ({"topics": "a", "trigger": "0s"}, "is not a duration"),
        ({"topics": "a", "starting.offsets": "middle"}, "starting.offsets: Invalid enum value"),
        ({"topics": "a", "metrics.port": "70000"}, "metrics.port: expected int <= 65535"),
        ({"topics": "a", "brokers": "nowhere"}, "'nowhere' is not HOST:PORT"),
        ({"topics": "a", "json.schema": "id INT"}, "json.schema and dead.letter.topic belong together"),
        (
            {"topics": "a", "json.schema": "id INT", "dead.letter.topic": "a"},
            "is one of the topics that the pipeline reads",
        ),
        ({"topics": "__HIVE_DEFAULT_PARTITION__"}, "cannot be archived: Spark takes it for none"),
        (
            {"topics.pattern": "a.*", "json.schema": "id INT", "dead.letter.topic": "ab"},
            "is one of the topics that the",
        ),
        ({"topics": "a", "progress.topic": "a"}, "progress.topic = a is one of the topics that the pipeline reads"),
        (
            {"topics.pattern": ".*", "progress.topic": "p"},
            "progress.topic = p is one of the topics that the pipeline reads",
        ),
        ({"topics": "a", "kafka.bootstrap.servers": "h:1"}, "kafka.bootstrap.servers: is the key brokers"),
        ({"topics": "a", "kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit: is Spark's own to set"),
        ({"topics": "a", "kafka.auto.offset.reset": "earliest"}, "is the key starting.offsets"),
        ({"topics": "a", "kafka.key.deserializer": "x"}, "kafka.key.deserializer: is Spark's own to set"),
        ({"topics": "a", "kafka.Group.Id": "x"}, "kafka.Group.Id: would share the group of others"),
        ({"topics": "a", "compact.batches": -1}, "compact.batches: expected int >= 0"),
        ({"topics": "a", "compact.every": 1}, "unknown key compact.every "),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_its_key(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(PipelineError, match=f"^here: .*{reason}"):
        convert({"kind": "archive", **values}, ArchiveSettings, "here")


@pytest.mark.parametrize(
    ("value", "batches"), [({}, 60), ({"compact.batches": "3"}, 3), ({"compact.batches": 0}, None)]
)
def test_small_files_of_an_archive_are_joined_unless_that_is_turned_off(
    value: dict[str, Any], batches: int | None
) -> None:
    assert convert({"kind": "archive", "topics": "a", **value}, ArchiveSettings, "here").compact_batches == batches


@pytest.mark.parametrize("values", [{"topics": "a,b", "to": "b"}, {"topics": "b,a", "to": "a"}])
@pytest.mark.parametrize("kind", ["copy", "join", "windowed-count"])
def test_a_kind_that_writes_to_what_it_reads_is_refused(kind: str, values: dict[str, Any]) -> None:
    pytest.importorskip("pyspark", reason="pyspark comes with the extra spark")
    with pytest.raises(PipelineError, match=f"to = {values['to']} is one of the topics that the pipeline reads"):
        convert({"kind": kind, **values}, load_kind(kind).settings, "here")


def test_topics_beside_a_pattern_in_a_file_are_refused_in_words(tmp_path: Path) -> None:
    for lines in ('topics = ["a"]\ntopics.pattern = "b"', 'topics.pattern = "b"\ntopics = ["a"]'):
        with pytest.raises(PipelineError, match=r"not TOML: .* topics beside topics\.pattern"):
            read(tmp_path, f"[pipelines.cold]\n{lines}\n")


def test_a_section_without_a_kind_says_so() -> None:
    with pytest.raises(PipelineError, match="here: kind is not set"):
        convert({"topics": "a"}, PipelineSettings, "here")


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("1.5m", 90), ("2h", 7200), ("1d", 86400)])
def test_durations_have_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_a_topic_is_one_that_is_read_by_its_name_or_by_the_whole_pattern() -> None:
    by_name = convert({"kind": "x", "topics": "a"}, PipelineSettings, "here")
    assert (by_name.matches("a"), by_name.matches("ab")) == (True, False)
    by_pattern = convert({"kind": "x", "topics.pattern": "a.*"}, PipelineSettings, "here")
    assert (by_pattern.matches("ab"), by_pattern.matches("ba")) == (True, False)


def test_a_kind_of_ones_own_is_a_module_with_settings_and_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "own_kinds"
    package.mkdir()
    (package / "mine.py").write_text(
        "from raftka.pipeline.settings import PipelineSettings\n"
        "class Settings(PipelineSettings, frozen=True, kw_only=True):\n    to: str\n"
        "def build(run): return None\n"
    )
    (package / "empty.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert load_kind("own_kinds.mine").settings.__struct_fields__[-1] == "to"
    with pytest.raises(PipelineError, match=r"own_kinds\.empty is not a kind of pipeline"):
        load_kind("own_kinds.empty")
    with pytest.raises(PipelineError, match=r"kind own_kinds\.nothing cannot be imported"):
        load_kind("own_kinds.nothing")
    with pytest.raises(PipelineError, match="there is no kind nothing"):
        load_kind("nothing")
