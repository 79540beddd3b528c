"""Which requests each client has sent: `python -m tests.clients.sent` runs the tasks and writes sent_requests.json.

Clients that were not asked this time (`-k`, `-m`, what is not installed) keep what is written of them.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

RECORDS = Path(__file__).with_name("sent_requests.json")
# The name of the plugin by which the fixtures find it.
RECORDER = "raftka-sent-requests"


class Recorder:
    """Collects what the tests see, by client."""

    def __init__(self) -> None:
        self.clients: dict[str, dict[str, Any]] = {}

    def note(self, client: str, version: str, requests: set[tuple[str, int]]) -> None:
        """Take what a client has sent in one test."""
        entry = self.clients.setdefault(client, {"version": version, "requests": {}})
        for api, api_version in requests:
            versions = entry["requests"].setdefault(api, [])
            if api_version not in versions:
                versions.append(api_version)
                versions.sort()

    def write(self, path: Path) -> None:
        """Write what was collected over what the file says of the same clients."""
        known = json.loads(path.read_text()) if path.exists() else {}
        known |= self.clients
        for entry in known.values():
            entry["requests"] = dict(sorted(entry["requests"].items()))
        lines = [
            f"  {json.dumps(name)}: {_in_short_lines(entry)}"
            for name, entry in sorted(known.items(), key=lambda each: each[0].lower())
        ]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _in_short_lines(entry: dict[str, Any]) -> str:
    """Return JSON with one line per API."""
    requests = [f"      {json.dumps(api)}: {json.dumps(versions)}" for api, versions in entry["requests"].items()]
    head = f'{{\n    "version": {json.dumps(entry["version"])},\n    "requests": {{\n'
    return head + ",\n".join(requests) + "\n    }\n  }"


def main() -> int:
    """Run the tasks with more options of pytest; write only what a run without failures has shown."""
    recorder = Recorder()

    class Plugin:
        @pytest.hookimpl
        def pytest_configure(self, config: pytest.Config) -> None:
            config.pluginmanager.register(recorder, RECORDER)

    folder = Path(__file__).parent
    tasks = [str(folder), f"--ignore={folder / 'test_sent_requests.py'}", "-m", "long or not long"]
    code = pytest.main([*tasks, *sys.argv[1:]], plugins=[Plugin()])
    if code == 0:
        recorder.write(RECORDS)
        print(f"{', '.join(sorted(recorder.clients))} -> {RECORDS.name}; now: python -m kafka_api.compatibility")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
