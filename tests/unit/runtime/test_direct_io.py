"""Large writes past the page cache leave exactly the bytes that small writes would."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime import direct_io
from runtime.direct_io import BLOCK_BYTES, DIRECT_BYTES_MIN, write_direct
from runtime.files import OsFileSystem

_PIECE = bytes(range(251)) * 40


def data_of(size: int, salt: int) -> bytes:
    """Return bytes that differ from place to place and from write to write."""
    return (_PIECE[salt % 251 :] * (size // len(_PIECE) + 2))[:size]


def direct_is_supported(folder: Path) -> bool:
    path = folder / "probe"
    path.write_bytes(b"")
    descriptor = os.open(path, os.O_RDWR)
    try:
        return write_direct(descriptor, [bytes(BLOCK_BYTES)], 0)
    finally:
        os.close(descriptor)
        path.unlink()


sizes = st.one_of(
    st.integers(1, 3 * BLOCK_BYTES),
    st.sampled_from([DIRECT_BYTES_MIN - 1, DIRECT_BYTES_MIN, 1 << 20, (1 << 20) + BLOCK_BYTES]),
    st.integers(DIRECT_BYTES_MIN, 5 * DIRECT_BYTES_MIN),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(sizes, st.integers(1, 4), st.sampled_from(["append", "overwrite", "cut"])), max_size=8))
def test_appends_overwrites_and_cuts_leave_what_a_byte_array_would_hold(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("direct")
    file = OsFileSystem().open(f"{folder}/f", create=True)
    model = bytearray()
    try:
        for salt, (size, pieces, step) in enumerate(steps):
            if step == "cut":
                del model[size % (len(model) + 1) :]
                file.truncate(len(model))
                continue
            position = len(model) if step == "append" else size % (len(model) + 1)
            data = data_of(size, salt)
            model[position : position + size] = data
            step_bytes = size // pieces + 1
            file.pwritev([data[at : at + step_bytes] for at in range(0, size, step_bytes)], position)
            assert file.size() == len(model)
            assert file.pread(len(model), 0) == model
    finally:
        file.close()
    assert Path(f"{folder}/f").read_bytes() == model


def test_a_file_without_a_name_is_written_too(tmp_path):
    file = OsFileSystem().open(f"{tmp_path}/f", create=True)
    (tmp_path / "f").unlink()
    data = data_of(2 * DIRECT_BYTES_MIN, 1)
    file.pwritev([b"head", data], 0)
    assert file.pread(1 << 20, 0) == b"head" + data
    file.close()


def test_large_writes_do_go_past_the_page_cache(tmp_path, monkeypatch):
    if not direct_is_supported(tmp_path):
        pytest.skip("this file system has no direct writes")
    written = []
    whole = direct_io._write_blocks

    def write_blocks(direct, blocks, position):
        written.append((position, len(blocks)))
        return whole(direct, blocks, position)

    monkeypatch.setattr(direct_io, "_write_blocks", write_blocks)
    file = OsFileSystem().open(f"{tmp_path}/f", create=True)
    file.pwritev([bytes(DIRECT_BYTES_MIN - 1)], 0)
    assert written == []
    file.pwritev([bytes(DIRECT_BYTES_MIN)], DIRECT_BYTES_MIN - 1)
    assert written == [(DIRECT_BYTES_MIN - BLOCK_BYTES, DIRECT_BYTES_MIN)]
    file.close()


def test_where_direct_writes_are_refused_the_usual_ones_are_made(tmp_path, monkeypatch):
    tries = []

    def refuse(direct, data, position):
        tries.append(position)
        raise OSError(errno.EINVAL, "no direct writes here")

    data = data_of(3 * DIRECT_BYTES_MIN, 2)
    file = OsFileSystem().open(f"{tmp_path}/f", create=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        file.pwritev([data], 0)
        file.pwritev([data], len(data))
    assert file.pread(1 << 20, 0) == data + data
    assert tries == [0], "it is tried once per open file"
    file.close()


def test_a_full_disk_is_an_error_of_the_write(tmp_path, monkeypatch):
    file = OsFileSystem().open(f"{tmp_path}/f", create=True)

    def full(*_):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="full") as raised:
            file.pwritev([bytes(2 * DIRECT_BYTES_MIN)], 0)
    assert raised.value.errno == errno.ENOSPC
    file.close()
