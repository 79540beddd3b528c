"""What cannot be judged is said to be so, with the line."""

import json

import pytest

from raftka.check.errors import HistoryError
from raftka.check.log_columns import read_log_history
from raftka.check.log_model import check_log
from raftka.check.register_history import read_register_history

SEND = {"f": "send", "type": "ok", "proc": 1, "inv": 1, "ret": 2, "tp": "t-0", "acks": "all", "val": "a", "off": 0}
FINAL = {"f": "poll", "type": "ok", "proc": 2, "inv": 3, "ret": 4, "tp": "t-0", "recs": [[0, "a"]], "final": True}


@pytest.fixture
def written(tmp_path):
    def write(*lines, end="\n", name="history.jsonl"):
        path = tmp_path / name
        path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines) + end)
        return path

    return write


def judged(*paths):
    return check_log(read_log_history(paths))


def test_a_whole_history_is_judged(written):
    verdict = judged(written(SEND, FINAL))
    assert verdict.is_valid
    assert verdict.operations == 2


def test_several_files_are_one_history_numbered_through(written):
    verdict = judged(written(SEND), written(FINAL | {"recs": [[0, "b"]]}, name="other"))
    lines = {line["line"] for finding in verdict.findings for each in finding.examples for line in each.operations}
    assert lines == {1, 2}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([""], "line 1: empty"),
        ([SEND, "", FINAL], "line 2: empty"),
        ([SEND, "{", FINAL], "line 2: Input data was truncated"),
        ([SEND, "nonsense"], "line 2: JSON is malformed"),
        ([SEND, {"f": "sand"}], "line 2: Invalid value 'sand'"),
        ([SEND | {"acks": "2"}], "line 1: Invalid enum value '2' - at `\\$.acks`"),
        ([{key: value for key, value in SEND.items() if key != "val"}], "line 1: Object missing required field `val`"),
        ([SEND, FINAL | {"recs": [["0", "a"]]}], "line 2: Expected `int`, got `str` - at `\\$.recs"),
        ([SEND | {"ret": 0}, FINAL], "line 1: the operation ends before it began"),
        ([SEND | {"ret": None}, FINAL], "line 1: the operation is ok and has no `ret`"),
        ([SEND, SEND | {"proc": 3}, FINAL], "lines 1 and 2: value 'a' is sent twice to t-0"),
        ([SEND, SEND | {"val": "b"}, FINAL], "lines 1 and 2: process 1 begins the second before the first has ended"),
        ([SEND, FINAL | {"proc": 1, "inv": 0}], "lines 1 and 2: process 1 begins the second"),
        ([SEND], "no final read of t-0"),
        ([SEND, FINAL | {"final": False}], "no final read of t-0"),
        ([SEND, FINAL | {"tp": "t-1"}], "no final read of t-0"),
        ([FINAL], "nothing was sent"),
        ([SEND | {"proc": -1}, FINAL], "line 1: Expected `int` >= 0 - at `\\$.proc`"),
        (
            [
                SEND,
                FINAL,
                *(
                    {"f": "latest", "type": "ok", "proc": 3, "tp": "t-0"} | each
                    for each in ({"inv": 5, "ret": 6, "off": 1}, {"inv": 7, "ret": 8})
                ),
            ],
            "line 4: a `latest` that is ok has an `off`",
        ),
        ([FINAL | {"recs": []}, SEND | {"inv": 9, "ret": 10}], "line 2: the final read of t-0 began before this send"),
        ([SEND | {"inv": 10**30}, FINAL], "line 1: .*at `\\$.inv`"),
        ([SEND | {"off": -1}, FINAL], "line 1: Expected `int` >= 0 - at `\\$.off`"),
        ([SEND, FINAL | {"recs": [[2**64, "a"]]}], "line 2: .*at `\\$.recs"),
        (
            [SEND, FINAL, {"f": "read", "type": "ok", "proc": 1, "inv": 9, "key": "k"}],
            "line 3: `read` is of the register",
        ),
        ([SEND, FINAL | {"recs": [[9_000_000_000_000_000_000, "a"]]}], "offsets above .* cannot be judged"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(written, lines, reason):
    with pytest.raises(HistoryError, match=reason):
        judged(written(*lines))


def test_an_empty_file_is_not_valid(written, tmp_path):
    with pytest.raises(HistoryError, match="is empty"):
        judged(written(end=""))


def test_a_file_that_was_cut_short_is_not_judged(written):
    path = written(SEND, FINAL)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(HistoryError, match="line 2: the history is cut short in its last line"):
        judged(path)


def test_only_the_last_newline_may_be_missing(written):
    assert judged(written(SEND, FINAL, end="")).is_valid


def test_records_of_several_partitions_that_one_poll_returned_begin_and_end_together(written):
    other = SEND | {"tp": "t-1", "proc": 5}
    assert judged(written(SEND, other, FINAL, FINAL | {"tp": "t-1"})).is_valid


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"f": "cas", "type": "ok", "in": [1, 2], "out": True}, "line 1: `cas` is not of this model"),
        ({"f": "read", "type": "ok", "ret": None}, "line 1: the operation is ok and has no `ret`"),
        ({"f": "read", "type": "ok", "ret": 1}, "line 1: the operation ends before it began"),
    ],
)
def test_a_register_history_names_its_lines_too(written, line, reason):
    with pytest.raises(HistoryError, match=reason):
        read_register_history([written({"proc": 1, "inv": 5, "ret": 6, "key": "k"} | line)], has_cas=False)


def test_register_values_are_what_json_says(written):
    common = {"type": "ok", "key": "k", "proc": 1}
    values = [1, 1.5, "1", True, [1], None]
    lines = []
    for number, value in enumerate(values):
        lines.append({"f": "write", "in": value, "inv": 10 * number + 1, "ret": 10 * number + 2} | common)
        lines.append({"f": "read", "out": value, "inv": 10 * number + 3, "ret": 10 * number + 4} | common)
    history = read_register_history([written(*lines)], has_cas=False)
    assert len(history.values) == len(values) - 1
    assert len({each.expected for each in history.steps["k"][1::2]}) == len(values)
