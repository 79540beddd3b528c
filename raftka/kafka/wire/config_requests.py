"""Options of one broker, from that broker itself: also from one that knows no controller and refuses Metadata."""

from raftka.kafka.wire.fields import Reader, array, i8, string
from raftka.kafka.wire.requests import Request

_BROKER = 4


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
