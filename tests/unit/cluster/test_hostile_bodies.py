"""Bodies of node links that hold anything at all: a named error, or a request of the right shape."""

from contextlib import suppress
from typing import get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import admin_messages, founding, leadership, partition_status, visible_ends
from cluster.producer_table import ProducerOptions, ProducerTable
from raft import service
from raft.messages import NUMBER_MAX, AppendEntriesRequest, InstallSnapshotRequest
from raft.service import check_snapshot_chunk, parse_run
from rpc.codec import body_builtins, parse_body
from rpc.errors import MalformedBodyError
from rpc.methods import Method
from storage.errors import CorruptLogError

MODULES = (service, admin_messages, founding, leadership, partition_status, visible_ends)
METHODS = [found for module in MODULES for found in vars(module).values() if isinstance(found, Method)]
SHAPES = sorted(
    {shape for method in METHODS for shape in (method.request, method.reply)}, key=lambda each: each.__name__
)
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6) | st.binary(max_size=9)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=25,
)
NUMBERS = st.integers(-3, 2**63 - 1)


def test_every_method_has_a_number_of_its_own() -> None:
    assert len(METHODS) >= 14
    assert len({method.number for method in METHODS}) == len(METHODS)


@given(st.sampled_from(SHAPES), VALUES)
def test_any_value_is_a_body_or_a_named_error(shape: type[msgspec.Struct], value: object) -> None:
    with suppress(MalformedBodyError):
        assert isinstance(parse_body(value, shape), shape)


@given(st.data())
def test_a_body_with_one_item_exchanged_is_a_body_or_a_named_error(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    # Fields with a default, too: from_type would leave them out.
    fields = {name: st.from_type(hint) for name, hint in get_type_hints(shape).items()}
    items = body_builtins(data.draw(st.builds(shape, **fields)))
    assert isinstance(items, list)
    if items:
        items[data.draw(st.integers(0, len(items) - 1))] = data.draw(VALUES)
    with suppress(MalformedBodyError):
        assert isinstance(parse_body(items, shape), shape)


@given(st.builds(AppendEntriesRequest, st.just("g"), *[NUMBERS] * 5, st.booleans()), st.binary(max_size=200))
def test_any_payload_of_an_append_is_entries_or_a_named_error(request: AppendEntriesRequest, payload: bytes) -> None:
    with suppress(MalformedBodyError):
        assert all(entry.term <= request.term for entry in parse_run(request, memoryview(payload)))


@given(st.from_type(InstallSnapshotRequest), st.binary(max_size=50))
def test_any_chunk_of_a_snapshot_fits_together_or_is_a_named_error(
    request: InstallSnapshotRequest, payload: bytes
) -> None:
    with suppress(MalformedBodyError):
        check_snapshot_chunk(request, memoryview(payload))
        assert 0 <= request.position <= request.position + len(payload) <= request.size


@given(VALUES, st.binary(max_size=60), st.sampled_from([b"", b"\x01", b"\x02"]))
def test_any_producer_state_is_a_table_or_a_named_error(value: object, data: bytes, version: bytes) -> None:
    state = data
    if version:
        with suppress(OverflowError):
            state = version + msgspec.msgpack.encode(value)
    with suppress(CorruptLogError):
        list(ProducerTable(ProducerOptions()).decode(state, 0))


@pytest.mark.parametrize("state", [b"\x00", b"\xff" * 9, b"\x01\x92\x05\x91\x95\x01\x02\x03\x04\x90"])
def test_a_state_that_no_table_wrote_is_refused_by_name(state: bytes) -> None:
    with pytest.raises(CorruptLogError):
        list(ProducerTable(ProducerOptions()).decode(state, 0))


@pytest.mark.parametrize(
    "shape", [each for each in SHAPES if each.__module__ == "raft.messages" and "term" in each.__struct_fields__]
)
@pytest.mark.parametrize("term", [-1, NUMBER_MAX + 1, 2**63])
def test_a_term_that_no_entry_could_hold_is_no_body(shape: type[msgspec.Struct], term: int) -> None:
    items = [_least(kind.type) for kind in msgspec.inspect.type_info(shape).fields]
    assert isinstance(parse_body(items, shape), shape)
    items[shape.__struct_fields__.index("term")] = term
    with pytest.raises(MalformedBodyError):
        parse_body(items, shape)


def _least(kind: object) -> object:
    """The least value of a field's type."""
    match kind:
        case msgspec.inspect.StrType():
            return ""
        case msgspec.inspect.BytesType():
            return b""
        case msgspec.inspect.BoolType():
            return False
        case msgspec.inspect.ListType():
            return []
        case msgspec.inspect.StructType(cls):
            return [_least(each.type) for each in msgspec.inspect.type_info(cls).fields]
        case _:
            return 0
