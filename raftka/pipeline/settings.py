"""What a pipeline can be told: keys, their types, and how text becomes them.

Keys are dotted like the broker's: `max.offsets.per.trigger` is the field `max_offsets_per_trigger`. A kind's own keys
are the fields of a subclass. Keys below `kafka.` and `spark.` are Spark's business and are passed on as they are.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from raftka.config import parse_address
from raftka.kafka.client import DEFAULT_BROKERS
from raftka.pipeline.errors import PipelineError

AVAILABLE_NOW = "available-now"
PASSED_ON = ("kafka", "spark")

Positive = Annotated[int, msgspec.Meta(ge=1)]
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|[smhd])")
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`")
_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_OF_SPARK = "is Spark's own to set"
# What `InternalConnectorUtils` of the connector refuses, and what would read elsewhere than is looked at.
_OTHER_KEYS = {
    "bootstrap.servers": "is the key brokers",
    "isolation.level": "is the key isolation.level",
    "auto.offset.reset": "is the key starting.offsets",
    "group.id": "would share the group of others, and Spark commits nothing: leave it out",
    **dict.fromkeys(("enable.auto.commit", "interceptor.classes", "key.deserializer", "value.deserializer"), _OF_SPARK),
    **dict.fromkeys(("key.serializer", "value.serializer"), _OF_SPARK),
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def dotted(name: str) -> str:
    """Return the key of a field."""
    return name.replace("_", ".")


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename=dotted):
    """What every kind of pipeline knows.

    Attributes:
        kind: Name of a kind, or a module of one's own, with a dot in its name.
        brokers: HOST:PORT,...
        topics: Which topics are read; these, or `topics_pattern`.
        topics_pattern: A regular expression for names of topics; those that appear later are read, too.
        starting_offsets: Where a pipeline without checkpoint begins.
        starting_timestamp: ... or at this time, in milliseconds since 1970.
        trigger: `available-now` reads what is there and ends; a duration (30s) starts a batch that often.
        version: Counts changes of the query that its checkpoint does not survive: each has a checkpoint of its own.
        max_offsets_per_trigger: Records of one batch, over all partitions.
        min_partitions: Spark tasks of a batch; None: one per Kafka partition.
        fail_on_data_loss: End with an error where records are gone that were not read.
        isolation_level: Whether records of aborted and open transactions are read.
        stop_seconds: How long a stop waits for the end of a batch.
        progress_topic: Gets the progress of every batch as JSON.
        metrics_port: Prometheus is served here, on loopback; 0: any free port.
        kafka: Options of Spark's Kafka source and sink, without the beginning `kafka.`.
        spark: Configuration of the Spark session, without the beginning `spark.`.
    """

    kind: str
    brokers: str = DEFAULT_BROKERS
    topics: tuple[str, ...] = ()
    topics_pattern: str | None = None
    starting_offsets: Literal["earliest", "latest"] = "earliest"
    starting_timestamp: Annotated[int, msgspec.Meta(ge=0)] | None = None
    trigger: str = AVAILABLE_NOW
    version: Positive = 1
    max_offsets_per_trigger: Positive = 1_000_000
    min_partitions: Positive | None = None
    fail_on_data_loss: bool = True
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    stop_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 60.0
    progress_topic: str | None = None
    metrics_port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] | None = None
    kafka: dict[str, str] = {}
    spark: dict[str, str] = {}

    @property
    def trigger_seconds(self) -> float | None:
        """Seconds between the starts of two batches; None: read what is there and end."""
        return None if self.trigger == AVAILABLE_NOW else parse_duration(self.trigger)

    def matches(self, topic: str) -> bool:
        """Return whether a topic is one that is read."""
        if self.topics_pattern is None:
            return topic in self.topics
        return re.fullmatch(self.topics_pattern, topic) is not None

    def check(self) -> None:
        """Compare the values with each other.

        Raises:
            ValueError: They do not fit together, or one is not what its type cannot say.
        """
        if bool(self.topics) == (self.topics_pattern is not None):
            raise ValueError("either topics or topics.pattern is needed")
        if self.topics_pattern is not None:
            try:
                re.compile(self.topics_pattern)
            except re.error as error:
                raise ValueError(f"topics.pattern: not a regular expression: {error}") from None
        for address in self.brokers.split(","):
            parse_address(address.strip().rpartition("://")[2])
        if self.trigger != AVAILABLE_NOW:
            parse_duration(self.trigger, "trigger", f", or {AVAILABLE_NOW}")
        self.refuse_own_source("progress.topic", self.progress_topic)
        check_kafka_options(self.kafka)

    def refuse_own_source(self, key: str, topic: str | None) -> None:
        """Refuse to write to a topic that is read: what is written would be read, and written again, forever.

        Raises:
            ValueError: It is one of the topics that are read; `key` is named.
        """
        if topic is not None and self.matches(topic):
            raise ValueError(
                f"{key} = {topic} is one of the topics that the pipeline reads: it would read its own output"
            )


S = TypeVar("S", bound=PipelineSettings)


def parse_duration(text: str, key: str = "duration", otherwise: str = "") -> float:
    """Return the seconds of 500ms, 30s, 5m, 2h or 1d.

    Raises:
        ValueError: Something else; `key` is named.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise ValueError(f"{key}: {text!r} is not a duration such as 500ms, 30s, 5m, 2h or 1d{otherwise}")
    return float(found[1]) * _UNIT_SECONDS[found[2]]


def check_kafka_options(options: Mapping[str, str]) -> None:
    """Refuse options of Kafka's clients that are not a pipeline's to set, before Spark does in its own words.

    Raises:
        ValueError: One of them; what to set instead is named, where there is such a thing.
    """
    for key in options:
        # Spark takes names in any case.
        if key.lower() in _OTHER_KEYS:
            raise ValueError(f"kafka.{key}: {_OTHER_KEYS[key.lower()]}")


def check_name(name: str) -> None:
    """Refuse a name of a pipeline that could not be a folder's.

    Raises:
        PipelineError: Such a name.
    """
    if not _NAME.fullmatch(name):
        raise PipelineError(f"{name!r} is not a valid name of a pipeline: use at most 64 letters, digits, - and _")


def convert(values: Mapping[str, Any], into: type[S], where: str) -> S:
    """Return the settings that these keys and values are; values may be text, as a flag's are.

    Args:
        values: By dotted key.
        into: The settings of a kind.
        where: Named in errors: the section of a file.

    Raises:
        PipelineError: A key that the kind does not know, or a value that is not of its key's type.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(into)}
    gathered: dict[str, Any] = {name: {} for name in PASSED_ON}
    for key, value in values.items():
        first, dot, rest = key.partition(".")
        if dot and first in PASSED_ON:
            gathered[first][rest] = _as_option(value)
        elif key in fields and isinstance(fields[key].default, tuple) and isinstance(value, str):
            gathered[key] = [word.strip() for word in value.split(",") if word.strip()]
        else:
            gathered[key] = value
    try:
        settings = msgspec.convert(gathered, into, strict=False)
        settings.check()
    except msgspec.ValidationError as error:
        raise PipelineError(f"{where}: {_in_words(str(error), fields)}") from None
    except ValueError as error:
        raise PipelineError(f"{where}: {error}") from None
    return settings


def _as_option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_words(text: str, fields: Mapping[str, Any]) -> str:
    if unknown := _UNKNOWN.match(text):
        return f"unknown key {unknown[1]} (known: {', '.join(sorted(fields))}, kafka.* and spark.*)"
    if missing := _MISSING.match(text):
        return f"{missing[1]} is not set"
    place = _PLACE.search(text)
    said = _PLACE.sub("", text).replace("`", "").replace("Expected", "expected")
    return f"{place[1]}: {said}" if place and place[1] else said
