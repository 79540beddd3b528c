"""What comes of a test whose tools are not installed."""

import pytest

from tests.needed_tools import NEED_VARIABLE, check_tools, needs_tools


@pytest.fixture
def item(request: pytest.FixtureRequest) -> pytest.Item:
    request.node.add_marker(needs_tools("sh", "no-such-tool", "nor-this-one"))
    return request.node


def test_a_test_without_its_tools_is_skipped_and_says_what_is_missing(
    item: pytest.Item, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(NEED_VARIABLE, raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^no-such-tool, nor-this-one not installed$"):
        check_tools(item)


def test_where_nothing_may_be_left_out_it_fails_and_says_what_to_do(item: pytest.Item, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NEED_VARIABLE, "1")
    with pytest.raises(pytest.fail.Exception, match=r"no-such-tool.*make system-packages-long"):
        check_tools(item)


def test_one_that_needs_only_what_is_there_goes_on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(NEED_VARIABLE, "1")
    request.node.add_marker(needs_tools("sh"))
    check_tools(request.node)
