"""Write docs/metrics.md and docs/operations/alerts.md from the tables of raftka/monitoring: `python docs/metrics.py`.

With `--check` nothing is written, and the exit code is 1 if a page is not what the tables say; the suite does that.
"""

import argparse
import sys
from pathlib import Path

from raftka.monitoring.reference_pages import alerts_page, metrics_page

DOCS = Path(__file__).parent


def main() -> int:
    """Write the pages, or compare them."""
    parser = argparse.ArgumentParser(description="Write the pages of metrics and alerts from their tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is not up to date")
    is_check = parser.parse_args().check
    code = 0
    for name, text in (("metrics.md", metrics_page()), ("operations/alerts.md", alerts_page())):
        page = DOCS / name
        if not is_check:
            page.write_text(text, encoding="utf-8")
        elif not page.exists() or page.read_text(encoding="utf-8") != text:
            print(f"{name} is not what the code says: run `python docs/metrics.py`", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
