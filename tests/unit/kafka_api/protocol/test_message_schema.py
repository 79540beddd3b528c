"""The checked-in tables, the stub that follows from them, and the names beside them."""

import importlib.metadata
from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map

from kafka_api.protocol import messages
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.message_classes import Message
from kafka_api.protocol.schema import definitions, derive
from kafka_api.protocol.schema.message_schema import Direction, VersionRange, api_keys, message_schema, schema_of
from kafka_api.protocol.schema.stub import stub_text

DERIVED_FROM = "3.0.12"


def test_the_stub_is_what_the_definitions_give() -> None:
    assert messages.__file__ is not None
    assert Path(messages.__file__).with_suffix(".pyi").read_text() == stub_text(), "run schema/derive.py"


@pytest.mark.skipif(
    importlib.metadata.version("kafka-python") != DERIVED_FROM, reason=f"derived from kafka-python {DERIVED_FROM}"
)
def test_the_definitions_are_what_was_derived() -> None:
    assert Path(definitions.__file__).read_text() == derive.definitions_text()


def test_every_message_of_the_tables_is_a_class_and_no_other_name_is() -> None:
    assert len(dir(messages)) == 2 * len(derive.API_KEYS)
    for name in dir(messages):
        found = getattr(messages, name)
        assert issubclass(found, Message)
        assert getattr(messages, name) is found
        assert found() == found()
    with pytest.raises(AttributeError):
        messages.NoSuchRequest  # type: ignore[attr-defined]  # noqa: B018


def test_requests_and_responses_have_the_same_versions() -> None:
    assert api_keys() == sorted(derive.API_KEYS)
    for key in api_keys():
        request, response = schema_of(key, Direction.REQUEST), schema_of(key, Direction.RESPONSE)
        assert (request.versions, request.flexible) == (response.versions, response.flexible)


def test_names_are_those_of_kafka() -> None:
    assert {int(code): code.name for code in ErrorCode} == {int(code): code.name.upper() for code in KioErrorCode}
    assert {key.value: key.name.lower() for key in ApiKey}.items() <= dict(api_key_map).items()
    for key in api_keys():
        assert schema_of(key, Direction.REQUEST).name == ApiKey(key).name.title().replace("_", "") + "Request"


def test_ranges_of_versions_are_read() -> None:
    assert VersionRange.parse("3-7") == (3, 7)
    assert VersionRange.parse("3") == (3, 3)
    assert not VersionRange.parse("none").has(0)
    assert VersionRange.parse("3+").has(9999)
    assert not VersionRange.parse("3+").has(2)


def test_an_unknown_message_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        message_schema("NoSuchRequest")
