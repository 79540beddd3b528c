"""Formats of records: what is printed by them, and what is read by them."""

import io
import json
import os
from typing import Any

import click
import pytest
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from raftka.cli.input_buffer import InputBuffer
from raftka.cli.output import bytes_as_json
from raftka.cli.record_format import record_as_json, record_printer
from raftka.cli.record_input import InputError, InputRecord, bytes_from_json, parse_header, record_reader


def message(**changes: Any) -> Message:
    fields = {
        "topic": "t",
        "partition": 1,
        "offset": 5,
        "key": b"k",
        "value": b"v\xff",
        "headers": [("a", b"1"), ("n", None)],
        "timestamp": (1, 1_700_000_000_123),
        "leader_epoch": 3,
    }
    return Message(**{name: value for name, value in (fields | changes).items() if value is not None})


class Trickle(io.RawIOBase):
    """A pipe that has a few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = data
        self._step = step

    def read1(self, size: int) -> bytes:
        chunk, self._data = self._data[: min(size, self._step)], self._data[min(size, self._step) :]
        return chunk


def read(text: str, data: bytes, key: str | None = None, separator: str | None = None) -> list[InputRecord]:
    return list(record_reader(text, key, separator)(io.BytesIO(data), ""))


def pairs(records: list[InputRecord]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("text", b"v\xff\n"),
        (r"%t %p %o %e %k %s\n", b"t 1 5 3 k v\xff\n"),
        ("%v %V %d", b"v\xff 2 1700000000123"),
        ("%K %S %h %H", b"1 2 a=1,n 2"),
        ("%T{iso}", b"2023-11-14T22:13:20.123Z"),
        ("%k{hex} %s{base64}", b"6b dv8="),
        ("%%k %%{x} {%k}", b"%k %{x} {k}"),
        (r"%%{ %%{x %k\x7b}", b"%{ %{x k{}"),
        (r"%k\t\r\n\0\x41\\", b"k\t\r\n\0A\\"),
        ("ä%k", "äk".encode()),
        ("%{%k%}%%", b"{k}%"),
        ("%t{hex} %v{base64raw}", b"74 dv8"),
        ("%R", b"\0\0\0\x02"),
        ("%h{ %k=%v}", b" a=1 n="),
        (r"%h{%K %V{big16} %k{base64} %v{hex}%%\n}.", b"1 \0\x01 YQ== 31%\n1 \0\0 bg== %\n."),
        ("%h{%{%k%}}", b"{a}{n}"),
        ("%d{strftime[%F %T]}", b"2023-11-14 22:13:20"),
        ("%T{strftime[[ [%Y] ]]}", b" [2023] "),
        ("%d{strftime### [%F] ###}%d{strftime{%H}}", b" [2023-11-14] 22"),
    ],
)
def test_a_record_is_printed_by_a_format(text: str, printed: bytes) -> None:
    assert record_printer(text)(message()) == printed


@pytest.mark.parametrize(
    ("modifier", "of_5", "of_minus_1", "of_a_time"),
    [
        ("ascii", b"5", b"-1", b"1700000000123"),
        ("hex64", b"0000000000000005", b"f" * 16, b"0000018bcfe5687b"),
        ("hex32", b"00000005", b"f" * 8, b"cfe5687b"),
        ("hex16", b"0005", b"f" * 4, b"687b"),
        ("hex8", b"05", b"ff", b"7b"),
        ("hex4", b"5", b"f", b"b"),
        ("big64", b"\0" * 7 + b"\5", b"\xff" * 8, b"\0\0\x01\x8b\xcf\xe5\x68\x7b"),
        ("big32", b"\0\0\0\5", b"\xff" * 4, b"\xcf\xe5\x68\x7b"),
        ("big16", b"\0\5", b"\xff" * 2, b"\x68\x7b"),
        ("big8", b"\5", b"\xff", b"\x7b"),
        ("little64", b"\5" + b"\0" * 7, b"\xff" * 8, b"\x7b\x68\xe5\xcf\x8b\x01\0\0"),
        ("little32", b"\5\0\0\0", b"\xff" * 4, b"\x7b\x68\xe5\xcf"),
        ("little16", b"\5\0", b"\xff" * 2, b"\x7b\x68"),
        ("little8", b"\5", b"\xff", b"\x7b"),
        ("byte", b"\5", b"\xff", b"\x7b"),
        ("bool", b"true", b"true", b"true"),
    ],
)
def test_a_number_is_printed_by_a_modifier_and_cut_off_where_it_is_too_large(
    modifier: str, of_5: bytes, of_minus_1: bytes, of_a_time: bytes
) -> None:
    printed = record_printer(f"%o{{{modifier}}}|%e{{{modifier}}}|%d{{{modifier}}}")(message(leader_epoch=-1))
    assert printed == b"|".join([of_5, of_minus_1, of_a_time])


def test_records_are_counted_as_they_are_printed() -> None:
    render = record_printer("%i %i{hex8};")
    assert [render(message()), render(message())] == [b"1 01;", b"2 02;"]
    assert record_printer("%p{bool}")(message(partition=0)) == b"false"


def test_the_size_of_a_null_is_none_where_no_sign_has_room() -> None:
    null = message(value=None)
    assert record_printer("%S{byte}%S{hex16}%S{little16}%S{hex4}")(null) == b"\0" + b"0000" + b"\0\0" + b"0"
    assert record_printer("%S{big32}%R")(null) == b"\xff" * 8


def test_nulls_are_empty_and_their_size_is_minus_one() -> None:
    empty = message(key=None, value=None, headers=None, leader_epoch=None)
    assert record_printer("%k|%s|%K|%S|%h|%H|%e")(empty) == b"||-1|-1||0|-1"
    assert record_printer("%S")(message(value=b"")) == b"0"


@pytest.mark.parametrize(("text", "printed"), [("json", b'"headers": null'), ("%h|", b"|"), ("%H", b"-1")])
def test_headers_that_the_client_does_not_decode_are_left_out_with_a_warning(text: str, printed: bytes) -> None:
    class Foreign:
        found: Any = None

        def __getattr__(self, _: str) -> Any:
            return lambda: 7

        def timestamp(self) -> tuple[int, int]:
            return 1, 7

        def key(self) -> bytes:
            return b""

        value = key

        def set_headers(self, found: Any) -> None:
            self.found = found

        def headers(self) -> Any:
            if self.found is None:
                raise SystemError("returned a result with an exception set")
            return self.found

    foreign: Any = Foreign()
    warned: list[str] = []
    assert printed in record_printer(text, warn=warned.append)(foreign)
    assert warned == ["offset 7 of partition 7-7 has a header whose name is not UTF-8; its headers are left out"]


def test_a_record_without_a_time_has_none_as_a_date_either() -> None:
    timeless = message(timestamp=(0, -1))
    assert record_printer("%T{iso}")(timeless) == b"-1"
    assert record_as_json(timeless)["timestamp"] == -1


def test_a_date_that_nobody_can_write_is_refused_before_any_record_is_read() -> None:
    with pytest.raises(click.BadParameter, match="strftime"):
        record_printer(f"%d{{strftime[{os.fsdecode(bytes([0xFF]))}]}}")


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    assert record_printer("%d{strftime[%F]}")(message(timestamp=(1, 2**62))) == str(2**62).encode()
    assert record_printer("%d{strftime[%F]}")(message(timestamp=(0, -1))) == b"-1"
    assert record_printer("%T{iso}")(message(timestamp=(1, 2**62))) == str(2**62).encode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("xml", "must be text, json or a format"),
        ("%q", "%q: the directives are %t"),
        ("%k%", "%: the directives are"),
        ("%o{hex}", "%o{hex}: not supported; use %o{ascii}, %o{hex64}"),
        ("%R{hex}", "%R{: there is only %R by itself, which is %S{big32}"),
        ("%k{4}", "%k{4}: not supported; use %k{hex}, %k{base64}, %k{base64raw}"),
        ("%x", "%x: is rpk's, and not here: the client library does not report it"),
        ("%a{compression}", "%a: is rpk's, and not here: the client library reports only the timestamp type"),
        ("%]", "%]: is rpk's, and not here: the client library does not report it with a record"),
        ("%d{go[2006]}", "use %d{ascii}"),
        ("%d{go[2006]}", "use strftime[...] instead"),
        ("%d{strftime[%F}", "%d{strftime[: is not closed by ]}"),
        ("%d{strftime[%F]", "%d{strftime[: is not closed by ]}"),
        ("%d{strftime}", "%d{strftime}: not supported"),
        ("%k{strftime[%F]}", "%k{strftime[...]}: not supported; use %k{hex}"),
        ("%v{unpack[>I]}", "%v{unpack[...]}: not supported; use %v{hex}, %v{base64}, %v{base64raw}; use hex instead"),
        ("%h{}", "%h{}: not supported; use %h{ %k=%v }"),
        ("%h{%k", "the brace is not closed"),
        ("%h{%o}", "%o: the directives are %k, %s, %K, %S, %v, %V, %R and %%"),
        ("%h{{%k}}", "a brace that is to be text within %h{...} is %{"),
        ("%k{iso}", "use %k{hex}, %k{base64}"),
        ("%k{}", "use %k{hex}, %k{base64}"),
        ("%k{hex", "the brace is not closed"),
        ("%k{he%s", "the brace is not closed"),
        (r"%k\q", r"\q: the escapes are"),
        (r"%k\xZZ", r"\x: the escapes are"),
    ],
)
def test_a_format_that_makes_no_sense_is_refused(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter) as refusal:
        record_printer(text)
    assert words in str(refusal.value)


def test_lines_are_records_and_nothing_in_them_is_decoded() -> None:
    assert pairs(read("text", b"a\r\nb\xff\n\nc")) == [(None, b"a"), (None, b"b\xff"), (None, b""), (None, b"c")]
    assert pairs(read("text", b"a\n", key="k")) == [(b"k", b"a")]
    assert pairs(read("text", b"a\r\r\nb\r")) == [(None, b"a\r"), (None, b"b\r")], "the end of a line is taken, no more"
    assert pairs(read("text", b"k:v:w\n:\n", separator=":")) == [(b"k", b"v:w"), (b"", b"")]
    with pytest.raises(InputError, match="line 2 has no ':' between key and value"):
        read("text", b"a:1\nnone\n", separator=":")


@pytest.mark.parametrize(
    ("text", "data", "found"),
    [
        (r"%k %s\n", b"a 1\nb 2 3\n", [(b"a", b"1"), (b"b", b"2 3")]),
        (r"%k %s\n", b"a 1\nb 2", [(b"a", b"1"), (b"b", b"2")]),
        (r"%v\t%k\0", b"1\ta\x002\tb\0", [(b"a", b"1"), (b"b", b"2")]),
        (r"<%s>", b"<1><2>", [(None, b"1"), (None, b"2")]),
        ("%s", b"all\nof it", [(None, b"all\nof it")]),
        ("%s", b"", []),
        (r"%S %s\n", b"3 a\nb\n0 \n-1 \n", [(None, b"a\nb"), (None, b""), (None, None)]),
        (r"%K,%V:%k%s;", b"1,2:abc;-1,0:;", [(b"a", b"bc"), (None, b"")]),
        (r"%k{hex} %s{base64}\n", b"6b dv8=\n", [(b"k", b"v\xff")]),
        ("%k{2}%s{3}", b"abcdeABCDE", [(b"ab", b"cde"), (b"AB", b"CDE")]),
        ("%K{2}%V{3}%k%v", b"abcdeABCDE", [(b"ab", b"cde"), (b"AB", b"CDE")]),
        (r"%K{4}%k{hex}%v\n", b"6162c\n4142\n", [(b"ab", b"c"), (b"AB", b"")]),
        ("%K{big16} foo %k%R%s", b"\0\1 foo k\0\0\0\2ab\0\0 foo \xff\xff\xff\xff", [(b"k", b"ab"), (b"", None)]),
        ("%V{byte}%v", b"\x80" + b"x" * 128 + b"\0", [(None, b"x" * 128), (None, b"")]),
        (r"%V{hex4}%v\n", b"2ab\n", [(None, b"ab")]),
        ("%V{hex32}%v", b"00000001affffffff", [(None, b"a"), (None, None)]),
        (r"%V{little32} %v\n", b"\1\0\0\0 a\n", [(None, b"a")]),
        (r"%V{ascii} %v\n", b"1 a\n", [(None, b"a")]),
        (r"%{%v%}\n", b"{a}\n{b}\n", [(None, b"a"), (None, b"b")]),
    ],
)
def test_input_is_taken_apart_by_a_format(text: str, data: bytes, found: list[tuple[bytes, bytes]]) -> None:
    assert pairs(read(text, data)) == found
    for step in (1, 2, 3):
        stream: Any = Trickle(data, step)
        assert pairs(list(record_reader(text, None, None)(stream, ""))) == found, step


def test_a_format_has_partitions_timestamps_and_headers() -> None:
    (record,) = read(r"%p %T %h %s\n", b"3 1700000000000 a=1,b= x\n")
    assert (record.partition, record.timestamp, record.value) == (3, 1_700_000_000_000, b"x")
    assert record.headers == [("a", b"1"), ("b", b"")]
    (record,) = read("%p{byte}%T{big64}%v", b"\3" + (1_700_000_000_000).to_bytes(8) + b"x")
    assert (record.partition, record.timestamp, record.value) == (3, 1_700_000_000_000, b"x")
    (record,) = read(r"%h %s\n", b" x\n", key="k")
    assert (record.key, record.headers, record.partition, record.timestamp) == (b"k", [], -1, 0)


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        (r"%s;", b"a;b", "record 2: %s is not followed by ';'"),
        (r"%S %s;", b"1 a", "record 1: expected ';' before ''"),
        (r"%k %s\n", b"a 1\nb\n", "record 2: %k is not followed by ' '"),
        (r"%k,%s;x", b"a,1;y", "record 1: %s is not followed by ';x'"),
        (r"%S %s\n", b"x 1\n", "record 1: %S: 'x' is not a number from -1"),
        (r"%S %s\n", b"9 1\n", "record 1: the input ends before 9 announced bytes"),
        (r"%S %s\n", b"1 12\n", r"record 1: expected '\n' before '2"),
        (r"%p %s\n", b"-1 x\n", "record 1: %p: '-1' is not a number from 0"),
        ("%p{big32}%s", b"\xff" * 4, "record 1: %p: '-1' is not a number from 0"),
        ("%p{big32}%s", b"\0", "record 1: the input ends before 4 announced bytes"),
        ("%p{hex8}%s", b"_1", "record 1: %p{hex8}: '_1' is not hex"),
        ("%p{hex8}%s", b"zz", "record 1: %p{hex8}: 'zz' is not hex"),
        ("%k{2}%s{2}", b"abcda", "record 2: the input ends before 2 announced bytes"),
        ("%R%s", b"\x80\0\0\0", "record 1: %S: '-2147483648' is not a number from -1"),
        (r"%k{hex} %s\n", b"6 x\n", "record 1: %k{hex}: '6' is not hex"),
        (r"%h %s\n", b"=1 x\n", "record 1: a header must be NAME=VALUE"),
        (r"%h %s\n", b"a=1 x\n\xff=1 x\n", "record 2: header name '\\udcff' is not UTF-8"),
        (r"%h %s\n", b"a\0b=1 x\n", "record 1: header name 'a\\x00b' contains NUL"),
        (r"%T %s\n", b"0 x\n", "record 1: %T: 0 is not supported"),
        (r"%T %s\n", b"-2 x\n", "record 1: %T: '-2' is not a number from -1"),
        (r"<%s>", b"1>", "record 1: expected '<' before '1>'"),
    ],
)
def test_input_that_does_not_fit_its_format_is_named(text: str, data: bytes, words: str) -> None:
    with pytest.raises(InputError) as refusal:
        read(text, data)
    assert words in str(refusal.value).replace(r"'\\n'", r"'\n'")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("%k%s", "text is needed between %k and %s"),
        ("%k %k", "%k occurs twice"),
        ("%S %k", "%S is not followed by %s"),
        ("%s %S", "%S is not followed by %s"),
        ("%t %s", "%t: the directives are"),
        ("%x %s", "%x: the directives are %k, %s, %h, %p, %T, %K, %S, %v, %V, %d, %R and %%"),
        ("%K{3} %k{3} %s", "%K and %k{N} both set its size"),
        ("%k{0}%s", "%k{0}: not supported; use %k{hex}, %k{base64}, %k{N}"),
        ("%v{re[..]}", "%v{re[...]}: not supported; use %v{hex}"),
        ("%p{bool} %s", "use %p{ascii}"),
        ("%p{4} %s", "use %p{ascii}"),
        ("%h{ %k=%v} %s", "%h{: not supported; use only %h by itself"),
        (r"%k\n", "without %s every value is null; confirm with --tombstone"),
        ("lines", "must be text, json or a format"),
    ],
)
def test_an_input_format_by_which_nothing_could_be_told_apart_is_refused(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter) as refusal:
        record_reader(text, None, None)
    assert words in str(refusal.value)


def test_a_format_without_values_is_for_tombstones() -> None:
    (record,) = record_reader(r"%k\n", None, None, allows_no_value=True)(io.BytesIO(b"a\n"), "")
    assert (record.key, record.value) == (b"a", None)


def test_a_key_that_is_null_is_none_in_every_kind_of_input() -> None:
    assert pairs(read("json", b'{"key": null, "value": "v"}', key="k")) == [(b"k", b"v")]
    assert pairs(read(r"%K %k%s\n", b"-1 v\n0 v\n", key="k")) == [(b"k", b"v"), (b"", b"v")]


def test_what_is_typed_need_not_be_utf_8() -> None:
    typed = os.fsdecode(b"\xff")
    assert pairs(read("text", b"a", key=typed)) == [(b"\xff", b"a")]
    assert pairs(read("text", b"a\xffb", separator=typed)) == [(b"a", b"b")]
    assert pairs(read("json", b'{"value": "v"}', key=typed)) == [(b"\xff", b"v")]
    assert pairs(read(f"%k{typed}%s", b"a\xffb")) == [(b"a", b"b")]
    assert record_printer(f"%s{typed}%%{{{typed}")(message()) == b"v\xff\xff%{\xff"
    with pytest.raises(InputError, match=r"has no '.*xff' between key and value"):
        read("text", b"a", separator=typed)


@pytest.mark.parametrize(("timestamp", "sent"), [("-1", 0), ("null", 0), ("1", 1), (str(2**63 - 1), 2**63 - 1)])
def test_a_timestamp_of_minus_one_is_now(timestamp: str, sent: int) -> None:
    (record,) = read("json", f'{{"value": "v", "timestamp": {timestamp}}}'.encode())
    assert record.timestamp == sent
    if len(timestamp) < 3:
        (record,) = read(r"%T %s\n", f"{timestamp} v\n".encode())
        assert record.timestamp == sent


def test_a_key_separator_goes_with_lines_only() -> None:
    with pytest.raises(click.BadParameter, match="--key-separator needs --format text"):
        record_reader("json", None, ":")


fields = st.none() | st.binary(max_size=20)


@given(st.lists(st.tuples(fields, fields), max_size=5), st.integers(1, 7))
def test_what_is_printed_with_sizes_is_read_back(records: list[tuple[bytes | None, bytes | None]], step: int) -> None:
    render = record_printer(r"%K %S %k%s\n")
    data = b"".join(render(message(key=key, value=value)) for key, value in records)
    stream: Any = Trickle(data, step)
    assert pairs(list(record_reader(r"%K %S %k%s\n", None, None)(stream, ""))) == records


@pytest.mark.parametrize("modifier", ["hex64", "hex32", "big64", "big32", "little64", "little32"])
@given(records=st.lists(st.tuples(fields, fields), max_size=5), step=st.integers(1, 7))
def test_what_is_printed_with_sizes_in_binary_is_read_back(
    modifier: str, records: list[tuple[bytes | None, bytes | None]], step: int
) -> None:
    text = f"%K{{{modifier}}}%V{{{modifier}}}%k%v"
    render = record_printer(text)
    stream: Any = Trickle(b"".join(render(message(key=key, value=value)) for key, value in records), step)
    assert pairs(list(record_reader(text, None, None)(stream, ""))) == records


@given(fields, fields)
def test_what_is_printed_as_json_is_read_back(key: bytes | None, value: bytes | None) -> None:
    line = json.dumps(record_as_json(message(key=key, value=value))).encode()
    (record,) = read("json", line)
    assert (record.key, record.value, record.timestamp) == (key, value, 1_700_000_000_123)
    assert record.headers == [("a", b"1"), ("n", None)]


@given(fields)
def test_bytes_come_back_from_json(data: bytes | None) -> None:
    assert bytes_from_json(json.loads(json.dumps(bytes_as_json(data))), "it") == data


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "line 1 is not JSON"),
        (b"[]", "line 1: must be an object"),
        (b'{"vlaue": "x"}', "line 1: unknown key 'vlaue'; keys: headers, key"),
        (b'{"value": 1}', "line 1: value must be a string, null or"),
        (b'{"value": {"base64": "?"}}', "line 1: value: '?' is not base64"),
        (b'{"timestamp": "now"}', "line 1: timestamp 'now' is not a number"),
        (b'{"timestamp": true}', "line 1: timestamp True is not a number"),
        (b'{"timestamp": 0}', "line 1: timestamp: 0 is not supported"),
        (b'{"timestamp": -5}', "line 1: timestamp -5 is not a number"),
        (b'{"timestamp": 99999999999999999999}', "line 1: timestamp 99999999999999999999 is not a number"),
        (b"[" * 200_000, "line 1 is nested too deep"),
        (b'{"headers": {"\\ud800": "x"}}', r"line 1: header name '\ud800' is not UTF-8"),
        (b'{"headers": [{"key": "a\\u0000b"}]}', r"line 1: header name 'a\x00b' contains NUL"),
        (b'{"headers": [1]}', "line 1: headers must be"),
        (b'{"headers": {"a": 1}}', "line 1: header a must be a string, null or"),
    ],
)
def test_json_that_is_no_record_is_named(line: bytes, words: str) -> None:
    with pytest.raises(InputError) as refusal:
        read("json", line)
    assert words in str(refusal.value)


def test_errors_name_the_file() -> None:
    with pytest.raises(InputError, match=r"^orders\.txt: line 1 has no"):
        list(record_reader("text", None, ":")(io.BytesIO(b"x"), "orders.txt"))


def test_a_header_may_have_no_value() -> None:
    assert parse_header("a=b=c", "-H") == ("a", b"b=c")
    assert parse_header("a", "-H") == ("a", None)


def test_a_buffer_takes_no_more_than_a_record_may_have() -> None:
    stream = io.BytesIO(b"x" * 200_000)
    with pytest.raises(Exception, match="exceed the limit of a record"):
        InputBuffer(stream, 1_000).until(b"\n", False)


def test_a_delimiter_is_found_across_the_border_of_two_reads() -> None:
    stream: Any = Trickle(b"ab--cd--e", 3)
    buffer = InputBuffer(stream, 100)
    assert [buffer.until(b"--", False), buffer.until(b"--", False), buffer.until(b"--", True)] == [b"ab", b"cd", b"e"]
    assert buffer.is_at_end()
