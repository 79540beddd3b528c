"""A Quix Streams application: the running sum of each key, kept in a state with a compacted changelog."""

import sys

from quixstreams import Application, State
from quixstreams.models import TopicConfig

bootstrap, group, source, target, folder, replicas = sys.argv[1:]
_WRITING = {
    # Without this, librdkafka may wait for a dead coordinator for ever (its issue 5511): see docs/exactly-once.md.
    "connections.max.idle.ms": 2_000,
    # Else each life has an id of its own, and sums wait a minute until the transaction of a killed one times out.
    "transactional.id": group,
}
application = Application(
    broker_address=bootstrap,
    consumer_group=group,
    state_dir=folder,
    auto_offset_reset="earliest",
    processing_guarantee="exactly-once",
    commit_interval=1.0,
    producer_extra_config=_WRITING,
    consumer_extra_config={"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000},
    # Else the log says each statistic of librdkafka.
    loglevel="INFO",
)
_CONFIG = TopicConfig(num_partitions=2, replication_factor=int(replicas))
numbers = application.topic(source, value_deserializer="json", key_deserializer="str", config=_CONFIG)
sums = application.topic(target, value_serializer="json", key_serializer="str", config=_CONFIG)


def add(number: int, state: State) -> int:
    total = state.get("sum", 0) + number
    state.set("sum", total)
    return total


application.dataframe(numbers).apply(add, stateful=True).to_topic(sums)
application.run()
