"""What a handler may use: the node below, the options of this listener, memory for what it reads, and
who creates topics on demand."""

from dataclasses import dataclass

from cluster.node import Node
from kafka_api.auto_topics import AutoTopics
from kafka_api.fetch_memory import FetchLease
from kafka_api.options import KafkaOptions


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One per connection; the request's version travels beside it."""

    node: Node
    options: KafkaOptions
    fetch_lease: FetchLease
    auto_topics: AutoTopics
