"""A pytest plugin for kafka-python's own tests: it completes the package `test` of the sdist.

The fixtures themselves take a running broker from KAFKA_URI. The sdist lacks `test/__init__.py`, without which Python's
own package `test` is found, and `test/service.py`, of which a running broker needs only a name.
"""

import sys
from pathlib import Path
from types import ModuleType


class ExternalService:
    """A broker that somebody else has started, and stops."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port


class SpawnedService:
    """A broker that the fixtures start where KAFKA_URI is missing."""

    def __init__(self, *_: object) -> None:
        raise AssertionError("the tests start a broker, though KAFKA_URI names one")


def _packages() -> dict[str, ModuleType]:
    package = ModuleType("test")
    package.__path__ = [str(Path.cwd() / "test")]
    service = ModuleType("test.service")
    vars(service).update(ExternalService=ExternalService, SpawnedService=SpawnedService)
    return {"test": package, "test.service": service}


sys.modules.update(_packages())
