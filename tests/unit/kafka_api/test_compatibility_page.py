"""docs/compatibility.md says what the code does."""

import re
from pathlib import Path

from kafka_api.handlers.registry import ADVERTISED, SERVED
from kafka_api.protocol.api_keys import ApiKey
from model.topic_config import TOPIC_CONFIGS

_PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"
_API = re.compile(r"^\| (\d+) \| (\w+) \| (\d+)(?: to (\d+))?", re.MULTILINE)
_CONFIG = re.compile(r"^\| `([a-z.]+)` \| (\S+) \| ([^|]+) \| (?:`([a-z.]+)` )?\|$", re.MULTILINE)


def test_the_page_lists_every_api_with_its_versions():
    page = {
        int(key): (name, int(low), int(high or low)) for key, name, low, high in _API.findall(_PAGE.read_text("utf-8"))
    }
    assert page.keys() == ADVERTISED.keys()
    for key, (name, low, high) in page.items():
        served = SERVED.get(key)
        assert (low, high) == ((served.first_version, served.last_version) if served else ADVERTISED[key])
        assert ApiKey(key).name.replace("_", "") == name.upper()


def test_the_page_lists_every_topic_configuration_with_its_default_and_what_is_accepted():
    assert _CONFIG.findall(_PAGE.read_text("utf-8")) == [
        (each.key, each.show(each.default), each.accepted, each.broker_key) for each in TOPIC_CONFIGS.values()
    ]
