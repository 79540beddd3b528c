"""What cannot be judged is said to be so, with the line."""

import json

import pytest

from raftka.check.errors import HistoryError
from raftka.check.log.builder import read_log_history
from raftka.check.log.model import check_log
from raftka.check.register_history import read_register_history
from raftka.check.register_model import check_register

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


def test_several_files_are_one_history_and_lines_are_named_by_file(written):
    one, two = written(SEND), written(FINAL | {"recs": [[0, "b"]]}, name="other")
    verdict = judged(one, two)
    shown = [line for finding in verdict.findings for each in finding.examples for line in each.operations]
    assert {(line["file"], line["line"]) for line in shown} == {(str(one), 1), (str(two), 1)}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["{"], "other:1: Input data was truncated"),
        ([SEND | {"ret": 0}], "other:1: the operation ends before it began"),
        ([SEND | {"proc": 3}], "history.jsonl:1 and .*other:1: value 'a' is sent twice"),
        ([FINAL, SEND | {"inv": 9, "ret": 10, "val": "b", "off": 1}], "other:2: the final read of t-0 began before"),
        ([SEND | {"val": "b"}, FINAL], "history.jsonl:1 and .*other:1: process 1 begins the second"),
        ([{"f": "read", "type": "ok", "proc": 1, "inv": 9, "key": "k"}], "other:1: `read` is of a register"),
    ],
)
def test_a_line_that_is_wrong_is_named_with_its_own_file(written, lines, reason):
    with pytest.raises(HistoryError, match=reason):
        judged(written(SEND), written(*lines, name="other"))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([""], ":1: empty"),
        ([SEND, "", FINAL], ":2: empty"),
        ([SEND, "{", FINAL], ":2: Input data was truncated"),
        ([SEND, "nonsense"], ":2: JSON is malformed"),
        ([SEND, {"f": "sand"}], ":2: Invalid value 'sand'"),
        ([SEND | {"acks": "2"}], ":1: Invalid enum value '2' - at `\\$.acks`"),
        ([{key: value for key, value in SEND.items() if key != "val"}], ":1: Object missing required field `val`"),
        ([SEND, FINAL | {"recs": [["0", "a"]]}], ":2: Expected `int`, got `str` - at `\\$.recs"),
        ([SEND | {"ret": 0}, FINAL], ":1: the operation ends before it began"),
        ([SEND | {"ret": None}, FINAL], ":1: the operation is ok and has no `ret`"),
        ([SEND, SEND | {"proc": 3}, FINAL], ":1 and .*:2: value 'a' is sent twice to t-0"),
        ([SEND, SEND | {"val": "b"}, FINAL], ":1 and .*:2: process 1 begins the second before the first has ended"),
        ([SEND, FINAL | {"proc": 1, "inv": 0}], ":1 and .*:2: process 1 begins the second"),
        ([SEND], "no final read of t-0"),
        ([SEND, FINAL | {"final": False}], "no final read of t-0"),
        ([SEND, FINAL | {"tp": "t-1"}], "no final read of t-0"),
        ([FINAL], "nothing was sent"),
        ([SEND | {"type": "info", "ret": None}, FINAL | {"recs": [], "hw": 0}], "no answer says anything"),
        ([SEND | {"acks": "0", "off": None}, FINAL | {"recs": []}], "no answer says anything"),
        ([SEND, FINAL | {"hw": 2}], ":2: the final read of t-0 ends at 1, below its own high watermark, 2"),
        ([SEND, FINAL | {"recs": [], "hw": 1}], ":2: the final read of t-0 ends at 0, below its own high watermark, 1"),
        ([SEND | {"proc": -1}, FINAL], ":1: Expected `int` >= 0 - at `\\$.proc`"),
        (
            [
                SEND,
                FINAL,
                *(
                    {"f": "latest", "type": "ok", "proc": 3, "tp": "t-0"} | each
                    for each in ({"inv": 5, "ret": 6, "off": 1}, {"inv": 7, "ret": 8})
                ),
            ],
            ":4: a `latest` that is ok has an `off`",
        ),
        ([FINAL | {"recs": []}, SEND | {"inv": 9, "ret": 10}], ":2: the final read of t-0 began before this send"),
        ([SEND | {"inv": 10**30}, FINAL], ":1: .*at `\\$.inv`"),
        ([SEND | {"off": -1}, FINAL], ":1: Expected `int` >= 0 - at `\\$.off`"),
        ([SEND, FINAL | {"recs": [[2**64, "a"]]}], ":2: .*at `\\$.recs"),
        (
            [SEND, FINAL, {"f": "read", "type": "ok", "proc": 1, "inv": 9, "key": "k"}],
            ":3: `read` is of a register",
        ),
        ([SEND, FINAL | {"recs": [[9_000_000_000_000_000_000, "a"]]}], "offsets above .* cannot be judged"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(written, lines, reason):
    with pytest.raises(HistoryError, match=reason):
        judged(written(*lines))


@pytest.mark.parametrize(
    "value", [b'"\xff"', b"[" * 100_000 + b"]" * 100_000, b"1e999999x"], ids=["no UTF-8", "nested", "no number"]
)
def test_what_no_decoder_reads_is_named_with_its_line(tmp_path, value):
    path = tmp_path / "history"
    line = b'{"f":"write","type":"ok","proc":1,"inv":1,"ret":2,"key":"k","in":%s}\n'
    path.write_bytes(line % b"1" + line % value)
    with pytest.raises(HistoryError, match=r"history:2: "):
        read_register_history([path], has_cas=False)


@pytest.mark.parametrize(
    "answers",
    [
        [SEND, FINAL],
        [SEND | {"type": "info"}, FINAL],
        [SEND | {"type": "info"}, {"f": "latest", "type": "ok", "proc": 3, "inv": 1, "ret": 2, "tp": "t-0", "off": 0}],
    ],
)
def test_one_answer_is_enough_to_be_judged(written, answers):
    assert judged(written(*answers, FINAL | {"proc": 4, "recs": answers[1].get("recs", [])})).is_valid


SEEK = {"f": "seek", "type": "ok", "proc": 2, "inv": 3, "tp": "t-0", "off": 1}


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([FINAL | {"hw": 1}], set()),
        ([FINAL | {"hw": None}], set()),
        # Another final reader came further, in a poll that said nothing of the high watermark.
        ([FINAL | {"recs": [], "hw": 1}, FINAL | {"proc": 3}], set()),
        # The log was cut between two final polls: that is an anomaly, and not for want of reading.
        ([FINAL | {"hw": 2}, FINAL | {"recs": [], "inv": 5, "ret": 6, "hw": 1}], {"nonmonotonic-hw"}),
        ([{"f": "trim", "tp": "t-0", "off": 1}, FINAL | {"recs": [], "hw": 1}], set()),
        # Nothing is left below the start of the log: what is missing is lost.
        ([SEEK, FINAL | {"recs": [], "hw": 1}], {"unseen"}),
    ],
)
def test_a_final_read_is_whole_where_it_came_to_its_high_watermark(written, lines, found):
    assert {each.name for each in judged(written(SEND, *lines)).findings} == found


def test_a_line_may_be_longer_than_what_is_read_at_once(written):
    sends = [SEND | {"val": f"v{n}", "off": n, "inv": 3 * n + 1, "ret": 3 * n + 2} for n in range(2)]
    recs = [[0, "v0"], [1, "v1" + " " * 3_000_000]]
    path = written(*sends, FINAL | {"recs": recs, "inv": 9, "ret": 9})
    assert {each.name for each in judged(path).findings} == {"phantom", "lost-write", "inconsistent-offsets"}


def test_lines_of_windows_are_lines(written):
    path = written(SEND, FINAL)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert judged(path).is_valid


def test_an_empty_file_is_not_valid(written, tmp_path):
    with pytest.raises(HistoryError, match="is empty"):
        judged(written(end=""))


def test_a_file_that_was_cut_short_is_not_judged(written):
    path = written(SEND, FINAL)
    path.write_text(path.read_text()[:-20])
    with pytest.raises(HistoryError, match=":2: the history is cut short in its last line"):
        judged(path)


def test_only_the_last_newline_may_be_missing(written):
    assert judged(written(SEND, FINAL, end="")).is_valid


def test_records_of_several_partitions_that_one_poll_returned_begin_and_end_together(written):
    other = SEND | {"tp": "t-1", "proc": 5}
    assert judged(written(SEND, other, FINAL, FINAL | {"tp": "t-1"})).is_valid


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"f": "cas", "type": "ok", "in": [1, 2], "out": True}, ":1: `cas` is not of this model"),
        ({"f": "read", "type": "ok", "ret": None}, ":1: the operation is ok and has no `ret`"),
        ({"f": "read", "type": "ok", "ret": 1}, ":1: the operation ends before it began"),
        ({"f": "read", "type": "ok"}, ":1: a read that is ok has an `out`"),
        ({"f": "write", "type": "ok"}, ":1: Object missing required field `in`"),
        ({"f": "write", "type": "ok", "in": 1}, "no read and no cas was answered"),
        ({"f": "write", "type": "info", "in": 1}, "no read and no cas was answered"),
        ({"f": "read", "type": "info"}, "no read and no cas was answered"),
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


@pytest.mark.parametrize(
    "answered",
    [
        {"f": "read", "type": "ok", "out": None},
        {"f": "cas", "type": "ok", "in": [1, 2], "out": False},
        {"f": "cas", "type": "ok", "in": [None, 2], "out": True},
    ],
)
def test_one_answer_is_enough_to_judge_a_register(written, answered):
    history = read_register_history([written({"proc": 1, "inv": 5, "ret": 6, "key": "k"} | answered)], has_cas=True)
    assert check_register(history, "cas").is_valid


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([{"a": {"b": 1, "c": [2]}}], [{"a": {"c": [2.0], "b": 1}}], True),
        (1, 1.0, True),
        (0, -0.0, True),
        (10**22, 1e22, True),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}, False),
        ([1, 2], [2, 1], False),
        (1, True, False),
        (1, "1", False),
        (1, 1.5, False),
    ],
)
def test_two_values_are_one_if_their_json_means_the_same(written, one, other, is_same):
    common = {"type": "ok", "key": "k", "proc": 1}
    lines = [
        {"f": "write", "in": one, "inv": 1, "ret": 2} | common,
        {"f": "read", "out": other, "inv": 3, "ret": 4} | common,
    ]
    assert check_register(read_register_history([written(*lines)], has_cas=False), "register").is_valid == is_same


NOT_UTF8 = b'{"f":"send","type":"ok","proc":1,"inv":1,"ret":2,"tp":"t-\xff","acks":"all","val":"a","off":0}'


@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_line_that_is_not_utf8_is_named(tmp_path, end):
    path = tmp_path / "history.jsonl"
    path.write_bytes(json.dumps(SEND).encode() + b"\n" + NOT_UTF8 + end)
    with pytest.raises(HistoryError, match=r":2: .*can't decode byte 0xff"):
        judged(path)


@pytest.mark.parametrize("depth", [65, 900, 100_000])
@pytest.mark.parametrize("is_object", [False, True])
def test_a_value_that_is_nested_too_deep_is_named(written, depth, is_object):
    value = '{"a":' * depth + "1" + "}" * depth if is_object else "[" * depth + "]" * depth
    line = f'{{"f":"write","type":"ok","proc":1,"inv":1,"ret":2,"key":"k","in":{value}}}'
    with pytest.raises(HistoryError, match=r":1: .*(nested more than 64 deep|recursion depth)"):
        read_register_history([written(line)], has_cas=False)


def test_a_value_as_deep_as_is_allowed_is_read(written):
    line = f'{{"f":"write","type":"ok","proc":1,"inv":1,"ret":2,"key":"k","in":{"[" * 64}{"]" * 64}}}'
    read = {"f": "read", "type": "ok", "proc": 1, "inv": 3, "ret": 4, "key": "k", "out": None}
    assert read_register_history([written(line, read)], has_cas=False).operations == 2
