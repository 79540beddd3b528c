"""What came of each client's tasks, and which requests it sent: `python -m tests.clients.sent` writes it down.

Clients that were not asked this time (`-k`, `-m`, what is not installed) keep what is written of them, with the date
and the commit of their own run; so do those that were not asked for everything.
"""

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import ROOT, source_version
from tests.clients.all_clients import CLIENTS, TOOLS_NAME
from tests.clients.tasks import client_tasks, tools_tasks

RECORDS = Path(__file__).with_name("sent_requests.json")
PAGE = ROOT / "docs" / "compatibility.md"
# The name of the plugin by which the fixtures find it.
RECORDER = "raftka-sent-requests"
# The property of a test in which they say whose it is, and what is to be recorded if nothing fails.
OUTCOME = "raftka-outcome"


class Recorder:
    """Collects what the tests see, by client."""

    def __init__(self) -> None:
        self.clients: dict[str, dict[str, Any]] = {}

    def note_requests(self, client: str, version: str, requests: set[tuple[str, int]]) -> None:
        """Take what a client has sent in one test."""
        entry = self._entry(client)
        entry["version"] = version
        for api, api_version in requests:
            versions = entry["requests"].setdefault(api, [])
            if api_version not in versions:
                versions.append(api_version)
                versions.sort()

    def note_outcome(self, client: str, task: str, outcome: str) -> None:
        """Take what came of one test."""
        self._entry(client)["tasks"][task] = outcome

    def _entry(self, client: str) -> dict[str, Any]:
        return self.clients.setdefault(client, {"version": "", "tasks": {}, "requests": {}})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """See how a test ended. One that is skipped before its fixtures, for want of a tool, has said nothing."""
        outcomes = [value for name, value in report.user_properties if name == OUTCOME]
        if not outcomes:
            return
        [(client, outcome)] = outcomes
        if (report.when, report.outcome) in (("call", "passed"), ("setup", "skipped")):
            task = report.nodeid.rpartition("::")[2].partition("[")[0].removeprefix("test_")
            self.note_outcome(client, task, outcome)

    def write(self, path: Path, run: Mapping[str, str], tasks: Mapping[str, Collection[str]]) -> list[str]:
        """Write over what the file says of the clients that were asked for all their tasks, and return who was not."""
        known = json.loads(path.read_text()) if path.exists() else {}
        partly = [name for name, entry in self.clients.items() if entry["tasks"].keys() != set(tasks[name])]
        for name in self.clients.keys() - set(partly):
            entry = self.clients[name]
            known[name] = {"version": entry["version"], "run": dict(run)}
            known[name] |= {part: dict(sorted(entry[part].items())) for part in ("tasks", "requests")}
        path.write_text("\n".join(_lines(known)) + "\n")
        return sorted(partly)


def _lines(clients: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the file with one line per task and API, so that a difference is as short as what changed."""
    yield "{"
    for name in sorted(clients, key=str.lower):
        entry, is_last = clients[name], name == max(clients, key=str.lower)
        yield f"  {json.dumps(name)}: {{"
        yield f'    "version": {json.dumps(entry["version"])},'
        yield f'    "run": {json.dumps(entry["run"])},'
        for part, end in (("tasks", "    },"), ("requests", "    }")):
            yield f'    "{part}": {{'
            items = [f"      {json.dumps(key)}: {json.dumps(value)}" for key, value in entry[part].items()]
            yield ",\n".join(items)
            yield end
        yield "  }" if is_last else "  },"
    yield "}"


def all_tasks() -> dict[str, Collection[str]]:
    """Return the tasks by whom they are asked of."""
    return {**{name: client_tasks().keys() for name in CLIENTS}, TOOLS_NAME: tools_tasks().keys()}


def main() -> int:
    """Run the tasks with more options of pytest; write only what a run without failures has shown."""
    recorder = Recorder()
    # Before the run, because a commit may be made during it.
    run = {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": source_version(*(path.relative_to(ROOT).as_posix() for path in (RECORDS, PAGE))),
    }

    class Plugin:
        @pytest.hookimpl
        def pytest_configure(self, config: pytest.Config) -> None:
            config.pluginmanager.register(recorder, RECORDER)

    folder = Path(__file__).parent
    tasks = [str(folder), f"--ignore={folder / 'test_sent_requests.py'}", "-m", "long or not long"]
    code = pytest.main([*tasks, *sys.argv[1:]], plugins=[Plugin()])
    if code == 0:
        partly = recorder.write(RECORDS, run, all_tasks())
        if partly:
            print(f"not written, because not asked for everything: {', '.join(partly)}")
        written = sorted(recorder.clients.keys() - set(partly))
        print(f"{', '.join(written) or 'nothing'} -> {RECORDS.name}; now: python -m kafka_api.compatibility")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
