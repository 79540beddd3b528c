"""Where the broker's plain-named packages (`storage`, `model`, ...) are: on the path of a broker's process alone.

They lie in `raftka/_broker` in an installed wheel, and in the project's root in a checkout. So `pip install raftka`
adds no such names to anybody else's environment.
"""

import sys
from pathlib import Path


def add_broker_packages() -> None:
    """Put the packages on the path of this process, before any of them is imported."""
    package = Path(__file__).resolve().parent.parent
    bundled = package / "_broker"
    sys.path.insert(0, str(bundled if bundled.is_dir() else package.parent))
