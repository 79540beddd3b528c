"""Tools that pip does not install: a test names its own, `@needs_tools("java", "mvn")`.

Where one is missing, the test is skipped and says which; with RAFTKA_NEED_CLIENTS=1, which `make test-long` and `make
sent-requests` set, it fails instead: a run that has left out what it is for must not pass.
"""

import os
import shutil

import pytest

NEED_VARIABLE = "RAFTKA_NEED_CLIENTS"


def needs_tools(*tools: str) -> pytest.MarkDecorator:
    """Mark a test that runs these programs."""
    return pytest.mark.needs_tools(*tools)


def missing(*tools: str) -> str | None:
    """Return what is missing of the tools, in words; None if nothing is."""
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return f"{', '.join(absent)} not installed" if absent else None


def check_tools(item: pytest.Item) -> None:
    """Skip a test whose tools are missing, or let it fail where they must not be."""
    for mark in item.iter_markers("needs_tools"):
        reason = missing(*mark.args)
        if reason is None:
            continue
        if os.environ.get(NEED_VARIABLE):
            pytest.fail(f"{reason}, and {NEED_VARIABLE} is set: make system-packages-long", pytrace=False)
        pytest.skip(reason)
