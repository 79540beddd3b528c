"""`python -m benchmarks.consume_picture`: what one consumer gets at each distance from the end, as a picture.

Draws benchmarks/results/consume.json into docs/pictures/consume.png, by matplotlib (the extra `spark`).
"""

import json
import sys
from typing import Any

from matplotlib.figure import Figure

from benchmarks.report import RESULTS, ROOT

_PICTURE = ROOT / "docs" / "pictures" / "consume.png"
# By row of the result, from the end of the partition to its beginning.
_POSITIONS = {
    "consume 1 GB of 1 KiB records that were just written": "just written:\nread.cache.bytes",
    "consume 1 GB of 1 KiB records again": "read again:\nread.cache.bytes",
    "consume 1 GB of 1 KiB records from the page cache": "further behind:\npage cache",
    "consume 1 GB of 1 KiB records with dropped caches": "further behind:\ndisk",
}
_LABELS = {"raftka": "Raftka", "kafka": "Apache Kafka"}
_INCHES = (9.0, 4.5)
_WIDTH = 0.38


def main() -> int:
    """Draw the median of each position as a bar, and each run as a point."""
    matches = json.loads((RESULTS / "consume.json").read_text())["result"]["matches"]
    figure = Figure(figsize=_INCHES, dpi=110, layout="constrained")
    panel = figure.subplots()
    for side, (label, name) in enumerate(_LABELS.items()):
        _draw(panel, matches, label, name, (side - 0.5) * _WIDTH)
    panel.set_xticks(range(len(_POSITIONS)), list(_POSITIONS.values()))
    panel.set_ylabel("MB/s of one consumer")
    panel.set_title("1 GB of 1 KiB records; bars are medians, points are runs")
    panel.legend()
    figure.savefig(_PICTURE, format="png", metadata={"Software": None})
    print(_PICTURE.relative_to(ROOT))
    return 0


def _draw(panel: Any, matches: dict[str, Any], label: str, name: str, shift: float) -> None:
    for number, what in enumerate(_POSITIONS):
        rates = sorted(run["megabytes_per_second"] for run in matches[what]["runs"][label])
        color = "C0" if label == "raftka" else "C1"
        panel.bar(number + shift, rates[len(rates) // 2], _WIDTH, color=color, label=name if number == 0 else None)
        panel.plot([number + shift] * len(rates), rates, "k.", markersize=4)


if __name__ == "__main__":
    sys.exit(main())
