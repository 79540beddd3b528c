"""What a handler may use: the node below, the options of this listener, and who is asking."""

from dataclasses import dataclass

from cluster.node import Node
from kafka_api.options import KafkaOptions


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One per connection; `api_version` travels beside it with each request."""

    node: Node
    options: KafkaOptions
    client: str
