"""What every read of a topic with Spark's Kafka source begins with."""

# Spark asks for the first and for the last offset of a partition with every poll (`InternalKafkaConsumer.fetch`), and
# Kafka's consumers poll 500 records: of a topic of small records that is most of what brokers have to do.
POLL_RECORDS = 10_000


def source_options(brokers: str) -> dict[str, str]:
    """Return the options that say where the brokers are, and with how much at once their records come."""
    return {"kafka.bootstrap.servers": brokers, "kafka.max.poll.records": str(POLL_RECORDS)}
