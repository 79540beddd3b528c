"""What a dev cluster that is refused leaves behind."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from raftka.dev.errors import DevError
from raftka.dev.supervisor import StartRequest, last_words, start_cluster

ANY_PORTS = StartRequest(nodes=1, port=0, admin_port=0, rpc_port=0)


def test_a_refused_start_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "parent" / "new"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(DevError, match="is taken"):
        start_cluster(replace(ANY_PORTS, data_dir=folder, port=taken.getsockname()[1]))
    assert not folder.exists()
    with pytest.raises(DevError, match="foo"):
        start_cluster(replace(ANY_PORTS, data_dir=folder, options={"foo": "bar"}))
    assert not folder.exists()


def test_a_refused_start_leaves_what_was_there(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    with pytest.raises(DevError, match="foo"):
        start_cluster(replace(ANY_PORTS, data_dir=tmp_path, options={"foo": "bar"}))
    assert kept.read_text() == "mine"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "INFO one\nraftka: the data directory is foreign\nINFO node 1 is connected\n",
            "raftka: the data directory is foreign",
        ),
        ("raftka: of another life\nraftka: of this one\n", "raftka: of this one"),
        ("INFO one\nINFO two\n", "INFO two"),
        ("", ""),
    ],
)
def test_what_a_broker_told_its_operator_is_found_among_the_lines_behind_it(
    tmp_path: Path, log: str, words: str
) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    assert last_words(path) == words
