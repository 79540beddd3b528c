"""Every small history of `test_anomalies` once more: an audit says of it what the checker says."""

import msgspec
import pytest
import stories
from audits import BLOCKS, BUNDLES, same_of_log
from test_anomalies import *  # noqa: F403


@pytest.fixture(autouse=True, params=[BUNDLES, BLOCKS], ids=["bundles", "blocks"])
def audited(request, monkeypatch):
    judge = stories.judge

    def judge_twice(operations, *args):
        lines = [msgspec.json.encode(each).decode() for each in operations]
        same_of_log(["".join(line + "\n" for line in lines)], request.param, *args)
        return judge(operations, *args)

    monkeypatch.setattr(stories, "judge", judge_twice)
