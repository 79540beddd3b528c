"""Kafka clients for the CLI, chaos runs and pipelines: calls to librdkafka, and `wire`, a client of our own."""
