"""Options of brokers: read from a broker itself, also one that knows no controller and refuses Metadata; and altered,
also for all brokers at once, which librdkafka does not do.
"""

from collections.abc import Iterable, Mapping

from raftka.kafka.wire.fields import Reader, array, i8, string
from raftka.kafka.wire.logger_requests import Refusal
from raftka.kafka.wire.requests import Request

_BROKER = 4
_SET, _DELETE = 0, 1


def describe_broker_option(node_id: int, key: str) -> Request[str]:
    """Ask a broker for one of its options; the answer is empty where it has none, or refuses."""

    def read_synonym(reader: Reader) -> None:
        reader.skip(reader.string, reader.string, reader.i8)

    def read_option(reader: Reader) -> tuple[str, str]:
        name, value = reader.string(), reader.string()
        reader.skip(reader.i8, reader.i8, reader.i8)  # read-only, source, sensitive
        reader.array(lambda: read_synonym(reader))
        return name, value

    def read(reader: Reader) -> str:
        # Throttle time; one resource; error code and message, type and name of the resource.
        reader.skip(reader.i32, reader.i32, reader.i16, reader.string, reader.i8, reader.string)
        return dict(reader.array(lambda: read_option(reader))).get(key, "")

    resource = i8(_BROKER) + string(str(node_id)) + array([string(key)])
    return Request(32, 1, array([resource]) + i8(False), read)


def alter_broker_options(
    node_id: int | None, changed: Mapping[str, str], deleted: Iterable[str], *, validate_only: bool
) -> Request[Refusal]:
    """Set and delete options of one broker, or those of all brokers (None); or only ask whether they could be."""

    def read(reader: Reader) -> Refusal:
        reader.skip(reader.i32, reader.i32)  # throttle time; one resource
        return Refusal(reader.i16(), reader.string())

    changes = [string(key) + i8(_SET) + string(value) for key, value in changed.items()]
    changes += [string(key) + i8(_DELETE) + string(None) for key in deleted]
    resource = i8(_BROKER) + string("" if node_id is None else str(node_id)) + array(changes)
    return Request(44, 0, array([resource]) + i8(validate_only), read)
