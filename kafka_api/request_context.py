"""What a handler may use: the node below, the options of this listener, memory for what it reads, the sessions of
consumers, who creates topics on demand, the consumer groups and the transactions that are kept here, what is counted,
what looks at the keys of records, who asks, how long an answer was waited for by choice, what of its batches was
refused for now, and from where on it reads."""

from dataclasses import dataclass, field

from cluster.node import Node
from kafka_api.auto_topics import AutoTopics
from kafka_api.fetch_memory import FetchLease
from kafka_api.fetch_sessions import FetchSessions
from kafka_api.groups.coordinator import GroupCoordinator
from kafka_api.key_checks import KeyChecks
from kafka_api.options import KafkaOptions, OptionsInForce
from kafka_api.read_positions import ReadPositions
from kafka_api.refused_batches import RefusedBatches
from kafka_api.request_figures import RequestFigures
from kafka_api.topic_traffic import TopicTraffic
from kafka_api.transactions.coordinator import TransactionCoordinator


@dataclass(slots=True)
class AskingClient:
    """Who sends the request that is handled: what it calls itself, and where it is."""

    client_id: str = ""
    host: str = ""


@dataclass(slots=True)
class ChosenWait:
    """Seconds for which the request that is handled has waited because its client asked for that."""

    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One per connection; the request's version travels beside it."""

    node: Node
    options_in_force: OptionsInForce
    fetch_lease: FetchLease
    fetch_sessions: FetchSessions
    auto_topics: AutoTopics
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    figures: RequestFigures
    traffic: TopicTraffic
    key_checks: KeyChecks
    client: AskingClient = field(default_factory=AskingClient)
    chosen_wait: ChosenWait = field(default_factory=ChosenWait)
    refused_batches: RefusedBatches = field(default_factory=RefusedBatches)
    read_positions: ReadPositions = field(default_factory=ReadPositions)

    @property
    def options(self) -> KafkaOptions:
        """Those of the listener, as of now."""
        return self.options_in_force.current
