"""README.md and docs/performance.md show the figures of benchmarks/results, and no others."""

import pytest

from benchmarks import readme_figures, table
from benchmarks.figures import FigureError
from benchmarks.report import RESULTS, ROOT


def test_the_figures_of_readme_are_those_of_the_results() -> None:
    page = (ROOT / "README.md").read_text()
    assert page == table.with_figures(page, table.load(RESULTS)), "make bench-table writes them anew"


def test_the_table_of_the_performance_page_is_that_of_the_results() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    assert page == table.replace_table(page, table.render(table.load(RESULTS))), "make bench-table writes it anew"


def test_a_row_that_readme_shows_and_no_result_has_is_an_error() -> None:
    with pytest.raises(FigureError, match="README shows 'produce 1 KiB, 1 partition, acks=all'"):
        readme_figures.render([{"result": {"rows": []}}])


def test_a_pattern_shows_the_smallest_and_the_largest_value() -> None:
    whats = {pattern for shown in readme_figures.SHOWN for pattern in shown.rows if not pattern.endswith("*")}
    rows = [{"what": what, "unit": "ms", "raftka": 1.0} for what in whats]
    rows += [
        {"what": f"produce {n}: CPU of the brokers", "unit": "s/GB", "raftka": float(n), "peer": 2.5 * n}
        for n in (3, 1, 2)
    ]
    text = readme_figures.render([{"result": {"rows": rows}}])
    assert "| CPU of the three brokers, eight ways to produce | 1 to 3 s/GB | 2.50 to 7.50 s/GB |" in text
