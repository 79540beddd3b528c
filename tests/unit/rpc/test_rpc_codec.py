"""Headers and bodies: what goes in comes out, and what a stranger sends is checked."""

import cbor2
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.codec import body_builtins, decode_header, encode_header, number, parse_body
from rpc.errors import MalformedBodyError, MalformedFrameError


class Inner(msgspec.Struct, array_like=True, frozen=True):
    name: str
    data: bytes


class Outer(msgspec.Struct, array_like=True, frozen=True):
    term: int
    inner: list[Inner]
    vote: int | None = None


@given(st.integers(0, 2**62), st.lists(st.tuples(st.text(max_size=10), st.binary(max_size=10))), st.none() | st.just(3))
def test_a_body_comes_back_as_it_was_sent(term, inner, vote) -> None:
    body = Outer(term, [Inner(*item) for item in inner], vote)
    items = decode_header(encode_header(0, 1, 2, body_builtins(body)))
    assert parse_body(items[3], Outer) == body


@pytest.mark.parametrize("value", [None, 3, [], ["1", []], [1, [["a"]]], [1, [["a", "b"]]], {"term": 1}, [1, 2**70]])
def test_a_body_of_another_shape_is_refused(value) -> None:
    with pytest.raises(MalformedBodyError, match="Outer"):
        parse_body(value, Outer)


@given(st.binary(max_size=200))
def test_a_header_of_garbage_is_refused_by_name(data) -> None:
    try:
        items = decode_header(data)
    except MalformedFrameError:
        return
    assert isinstance(items[0], int)


@pytest.mark.parametrize(
    "data",
    [cbor2.dumps(value) for value in (7, [], ["a"], {}, [True], [[0]], None)]
    + [b"\x81" * 1000, b"\x9f\x00\xff", b"\x82\x00", b"\x9b" + b"\x7f" * 8, b""],
)
def test_a_header_that_is_no_array_of_ours_is_refused(data) -> None:
    with pytest.raises(MalformedFrameError):
        decode_header(data)


def test_no_tag_at_all_is_decoded() -> None:
    for tag in range(65_536):
        head = bytes([0xD9]) + tag.to_bytes(2, "big")
        with pytest.raises(MalformedFrameError):
            decode_header(b"\x82\x00" + head + b"\x80")


@pytest.mark.parametrize("value", [-1, 1 << 63, True, "1", None, 1.0])
def test_a_number_out_of_its_range_is_refused(value) -> None:
    with pytest.raises(MalformedFrameError):
        number(value)
