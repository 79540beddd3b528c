"""What a handler may use: the node below and the options of this listener."""

from dataclasses import dataclass

from cluster.node import Node
from kafka_api.options import KafkaOptions


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One per listener; the request's version travels beside it."""

    node: Node
    options: KafkaOptions
