"""Who else may read the secret and the data directory, and what a broker says of it."""

import logging
import os
from pathlib import Path

import pytest

from cluster.errors import StartupError
from raftka.broker.application import node_options
from raftka.broker.permissions import read_secret, warn_of_open_directory
from raftka.config import load_config
from raftka.dev.supervisor import StartRequest, _folder

SECRET = b"a secret of more than sixteen bytes"


def _secret(tmp_path: Path, mode: int) -> bytes | None:
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    file.chmod(mode)
    return node_options(load_config({"node.id": 1, "cluster.secret.file": str(file)})).secret


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o606, 0o602, 0o666])
def test_a_secret_that_everybody_can_read_or_change_is_refused_and_the_cure_is_named(tmp_path: Path, mode: int) -> None:
    with pytest.raises(StartupError, match=rf"has mode {mode:04o}: every user.*; chmod 600 {tmp_path}/secret"):
        _secret(tmp_path, mode)


def test_a_secret_that_is_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "secret", 0o600)
    with pytest.raises(StartupError, match="is no regular file"):
        read_secret(str(tmp_path / "secret"))


@pytest.mark.parametrize("mode", [0o640, 0o660, 0o620])
def test_a_secret_that_its_group_can_read_is_taken_with_a_warning(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert _secret(tmp_path, mode) == SECRET
    (line,) = _warnings(caplog)
    assert f"has mode {mode:04o}" in line
    assert f"chmod 600 {tmp_path}/secret" in line


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_secret_of_this_user_alone_is_taken_in_silence(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert _secret(tmp_path, mode) == SECRET
    assert _warnings(caplog) == []


@pytest.mark.parametrize(("mode", "is_warned"), [(0o755, True), (0o750, True), (0o701, True), (0o700, False)])
def test_a_data_directory_that_lets_others_in_is_used_with_a_warning(
    tmp_path: Path, mode: int, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "data"
    path.mkdir()
    path.chmod(mode)
    warn_of_open_directory(str(path))
    assert len(_warnings(caplog)) == is_warned
    assert path.stat().st_mode & 0o777 == mode
    if is_warned:
        assert f"chmod 700 {path}" in caplog.text


def test_the_folder_of_a_dev_cluster_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder, is_made = _folder(StartRequest(data_dir=tmp_path / "above" / "dev"))
    assert is_made
    assert folder.path.stat().st_mode & 0o777 == 0o700
