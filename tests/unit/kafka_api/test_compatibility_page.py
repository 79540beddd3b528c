"""docs/compatibility.md says what the code does."""

import pytest

from kafka_api.compatibility import PAGE, sent_requests, with_tables
from kafka_api.handlers.registry import ADVERTISED
from kafka_api.protocol.schema.message_schema import Direction, schema_of


def test_the_tables_of_the_page_are_those_of_the_code():
    page = PAGE.read_text("utf-8")
    assert with_tables(page) == page, "run: python -m kafka_api.compatibility"


def test_a_table_that_is_wrong_is_put_right():
    page = PAGE.read_text("utf-8")
    assert with_tables(page.replace("| 1 | Fetch | 4 to 18 |", "| 1 | Fetch | 4 to 17 |")) == page
    assert with_tables(page.replace("| `flush.ms` |", "| `flush.hours` |")) == page


def test_a_page_without_the_place_of_a_table_is_refused():
    with pytest.raises(ValueError, match="end of API keys"):
        with_tables(PAGE.read_text("utf-8").replace("<!-- end of API keys -->", ""))


def test_every_request_that_a_client_was_seen_to_send_is_served():
    served = {
        schema_of(key, Direction.REQUEST).name.removesuffix("Request"): range(first, last + 1)
        for key, (first, last) in ADVERTISED.items()
    }
    for client, told in sent_requests().items():
        assert told["version"], client
        for api, versions in told["requests"].items():
            assert set(versions) <= set(served[api]), f"{client}: {api}"
