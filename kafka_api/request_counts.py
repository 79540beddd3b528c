"""How many requests of each key and version this listener has handled: what its clients speak."""

from collections import Counter
from collections.abc import Iterator

from kafka_api.protocol.schema.message_schema import Direction, schema_of


class RequestCounts:
    """Counted when a request of a served key and version is decoded; so there are a few hundred counters at most."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()

    def count(self, api_key: int, api_version: int) -> None:
        """Count one."""
        self._counts[api_key, api_version] += 1

    def __iter__(self) -> Iterator[tuple[str, int, int]]:
        """Yield API names as Kafka spells them, versions, and counts, by key and version."""
        for (api_key, api_version), count in sorted(self._counts.items()):
            yield schema_of(api_key, Direction.REQUEST).name.removesuffix("Request"), api_version, count
