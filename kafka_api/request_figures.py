"""What the listener counts of requests: how many of each version, how long they take, the error codes of their answers.

It is on the path of every request: `python -m benchmarks.produce_cpu` compares what a Produce costs.
"""

from collections import Counter
from collections.abc import Iterator

from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.error_scanner import error_scanner
from kafka_api.protocol.message_classes import Message
from kafka_api.protocol.schema.message_schema import Direction, schema_of
from model.fixed_histogram import FixedHistogram


class VersionFigures:
    """Of one version of one API; those of an API share what is not told by version.

    Attributes:
        requests: How many were decoded.
        durations: How long requests of the API took.
        errors: Error codes in answers of the API.
    """

    __slots__ = ("_scan", "durations", "errors", "requests")

    def __init__(self, api_key: int, api_version: int, durations: FixedHistogram, errors: Counter[int]) -> None:
        self._scan = error_scanner(api_key, api_version)
        self.requests = 0
        self.durations = durations
        self.errors = errors

    def answered(self, response: Message, seconds: float, now: float) -> None:
        """Count an answer that is ready at `now`, the loop's time, and each error code in it."""
        codes = self._scan(response)
        if codes:
            self.errors.update(codes)
        self.durations.observe(seconds, now)

    def ended(self, seconds: float, now: float) -> None:
        """Count a request that has no answer."""
        self.durations.observe(seconds, now)

    def refused(self, response: Message) -> None:
        """Count the error codes of an answer that its client does not want."""
        self.errors.update(self._scan(response))


class RequestFigures:
    """One per listener. Only served keys and versions are counted, so there are some hundred at most."""

    def __init__(self) -> None:
        self._versions: dict[tuple[int, int], VersionFigures] = {}
        self._durations: dict[int, FixedHistogram] = {}
        self._errors: dict[int, Counter[int]] = {}

    def of(self, api_key: int, api_version: int) -> VersionFigures:
        """Return the figures of a version that is served; of ApiVersions the one in which it is answered."""
        figures = self._versions.get((api_key, api_version))
        if figures is None:
            durations = self._durations.setdefault(api_key, FixedHistogram())
            errors = self._errors.setdefault(api_key, Counter())
            figures = self._versions[api_key, api_version] = VersionFigures(api_key, api_version, durations, errors)
        return figures

    @property
    def requests(self) -> list[tuple[str, int, int]]:
        """API names as Kafka spells them, versions and counts, by key and version."""
        return [(_name(key), version, self._versions[key, version].requests) for key, version in sorted(self._versions)]

    @property
    def durations(self) -> list[tuple[str, FixedHistogram]]:
        """How long requests took, by API in the order of the keys."""
        return [(_name(key), self._durations[key]) for key in sorted(self._durations)]

    @property
    def errors(self) -> list[tuple[str, str, int]]:
        """API names, error codes as Kafka spells them, and counts, by key and code."""
        return list(self._all_errors())

    def _all_errors(self) -> Iterator[tuple[str, str, int]]:
        for key in sorted(self._errors):
            for code, count in sorted(self._errors[key].items()):
                yield _name(key), _code_name(code), count


def _name(api_key: int) -> str:
    return schema_of(api_key, Direction.REQUEST).name.removesuffix("Request")


def _code_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
