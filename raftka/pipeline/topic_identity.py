"""Topics are known by their ids: one that was deleted and created again is not the one that a checkpoint is of."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from raftka.error_text import reason_of
from raftka.kafka import client as kafka_client
from raftka.kafka.client import REQUEST_SECONDS
from raftka.pipeline.durable_files import replace_file
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.settings import PipelineSettings

# Brokers without ids give every topic this one.
NO_ID = "A" * 22


class TopicIdentity:
    """The ids of a pipeline's topics, since its checkpoint began; kept in a file beside it."""

    def __init__(self, settings: PipelineSettings, path: Path) -> None:
        self._settings = settings
        self._path = path
        self._known = _load(path)

    def check(self) -> None:
        """Compare the topics with those that the checkpoint is of; ids of new topics are added.

        Raises:
            PipelineError: One is missing, or was created again.
            KafkaClientError: The brokers do not tell.
        """
        found = topic_ids(self._settings.brokers, self._names())
        if missing := [name for name in self._settings.topics if name not in found]:
            what = "was deleted" if missing[0] in self._known else "does not exist"
            raise PipelineError(f"topic {missing[0]} {what}: {how_to_make(missing[0])}")
        verdict = compare(self._known, found)
        if verdict is not None:
            raise PipelineError(verdict)
        if not self._known.items() >= found.items():
            self._known |= found
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, msgspec.json.encode(self._known) + b"\n")

    def _names(self) -> list[str]:
        if self._settings.topics_pattern is None:
            return list(self._settings.topics)
        return [
            name for name in kafka_client.read_cluster(self._settings.brokers).topics if self._settings.matches(name)
        ]


def how_to_make(topic: str) -> str:
    """Return where a topic comes from that is not there."""
    if topic.startswith("__"):
        return "brokers make it themselves once they are told to use it"
    return f"`raftka topic create {topic}` creates it"


def compare(known: Mapping[str, str], found: Mapping[str, str]) -> str | None:
    """Return what is wrong with topics that were known by other ids; None: nothing is."""
    for name, was in known.items():
        if name in found and found[name] != was:
            return (
                f"topic {name} was deleted and created again (its id was {was} and is {found[name]}): the checkpoint's"
                " offsets are of the former one; a higher `version` begins anew, an archive with another `to` as well"
            )
    return None


def topic_ids(brokers: str, names: list[str]) -> dict[str, str]:
    """Return the ids of those topics that exist; brokers without ids give every topic the same one.

    Raises:
        KafkaClientError: No answer.
    """
    from confluent_kafka import KafkaException, TopicCollection

    if not names:
        return {}
    found = {}
    with kafka_client.one_line_errors(brokers):
        admin = kafka_client.new_admin(brokers)
        futures = admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_SECONDS)
        for name, future in futures.items():
            try:
                found[name] = str(kafka_client.result_of(future, brokers, 2 * REQUEST_SECONDS).topic_id)
            except KafkaException as error:
                if error.args[0].name() != "UNKNOWN_TOPIC_OR_PART":
                    raise
    return found


def known_ids(brokers: str, names: Iterable[str]) -> dict[str, str]:
    """Return the ids of topics, where brokers give them any.

    Raises:
        KafkaClientError: No answer.
    """
    return {name: found for name, found in topic_ids(brokers, list(names)).items() if found != NO_ID}


def _load(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise PipelineError(f"{path}: {reason_of(error)}") from None
