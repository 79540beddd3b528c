"""DescribeCluster (KIP-700): a broker answers it also while it knows no controller, when it refuses Metadata."""

from typing import NamedTuple

from raftka.kafka.wire.fields import Reader, i8
from raftka.kafka.wire.requests import Request

_NO_TAGS = i8(0)


class ClusterAnswer(NamedTuple):
    """What one broker tells of its cluster.

    Attributes:
        controller: Node id, -1 if the broker knows none.
        brokers: (host, port) by node id. A Raftka broker that knows no controller names every member of the cluster.
    """

    controller: int
    brokers: dict[int, tuple[str, int]]


def describe_cluster() -> Request[ClusterAnswer]:
    """Ask one broker who else there is; its header and body are of the flexible kind, for there is no other."""

    def read_broker(reader: Reader) -> tuple[int, tuple[str, int]]:
        node_id, host, port = reader.i32(), reader.compact_string(), reader.i32()
        reader.compact_string()  # rack
        reader.tags()
        return node_id, (host, port)

    def read(reader: Reader) -> ClusterAnswer:
        reader.tags()  # of the header
        reader.skip(reader.i32, reader.i16, reader.compact_string, reader.compact_string)  # throttle, error, cluster id
        controller = reader.i32()
        return ClusterAnswer(controller, dict(reader.compact_array(lambda: read_broker(reader))))

    return Request(60, 0, i8(False) + _NO_TAGS, read)
