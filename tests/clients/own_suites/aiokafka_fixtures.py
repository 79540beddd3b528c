"""A pytest plugin for aiokafka's own tests: brokers that run already, in place of those in a container.

OWN_SUITES_BROKERS has the brokers' addresses, HOST:PORT,... . The plugin stands in for two packages that the tests need
only for containers and for coroutine tests, which are not among those selected here: docker and pytest-asyncio.
"""

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

_ADDRESSES = os.environ["OWN_SUITES_BROKERS"].split(",")


def _docker() -> ModuleType:
    """Return what the annotations of aiokafka's conftest.py name."""
    module = ModuleType("docker")
    module.models = SimpleNamespace(containers=SimpleNamespace(Container=object))  # type: ignore[attr-defined]
    return module


sys.modules["docker"] = _docker()


def _given_fixtures() -> dict[str, object]:
    """Return the fixtures that start a container or run programs in it, each with what it gives instead.

    A bare object has no attribute, so a test that wants an access list, Kerberos or TLS fails.
    """
    host, port = _ADDRESSES[0].rsplit(":", 1)
    none = SimpleNamespace(ssl_port=None, sasl_plain_port=None, sasl_ssl_port=None, container=None)
    server = SimpleNamespace(host=host, port=int(port), hosts=_ADDRESSES, **vars(none))
    absent = ("docker", "kafka_image", "ssl_folder", "acl_manager", "kerberos_utils", "kafka_config")
    return {"kafka_server": server, **{name: object() for name in absent}}


_GIVEN = _given_fixtures()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("asyncio_mode", "pytest-asyncio's option, which aiokafka's pyproject.toml has")


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> object:
    """Give a fixture's value, as pytest's own hook would; a plugin's fixtures are hidden by those of a conftest.py."""
    value = _GIVEN.get(fixturedef.argname)
    if value is not None:
        fixturedef.cached_result = (value, fixturedef.cache_key(request), None)
    return value
