"""kcat, the second Kafka client, as a subprocess."""

import json
import subprocess
from typing import Any

from tests.needed_tools import needs_tools

needs_kcat = needs_tools("kcat")
_TIMEOUT_SECONDS = 90


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    """Run kcat and return its stdout; fails with its stderr if it does."""
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments], input=stdin, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS
    )
    assert done.returncode == 0, f"kcat {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def consume(bootstrap: str, topic: str, offset: str, *arguments: str) -> list[str]:
    """Return the values from `offset` (a number, `beginning`, `end`, or -N) to the end of partition 0."""
    return kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", offset, "-e", "-q", *arguments).splitlines()


def metadata(bootstrap: str) -> Any:
    """Return what `kcat -L` says, as JSON."""
    return json.loads(kcat(bootstrap, "-L", "-J"))
