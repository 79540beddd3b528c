"""The zip of a bundle: whole or not there, bounded, with a manifest that says what is in it."""

import hashlib
import json
import os
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raftka.debug import bundle_file
from raftka.debug.bundle_file import BundleFile
from raftka.debug.errors import BundleError
from raftka.debug.secret_mask import SecretMask
from tests.small_disks import small_disk


def written(path: Path) -> dict[str, Any]:
    """Return the manifest of a bundle; it must say what the file holds."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        manifest: dict[str, Any] = json.loads(archive.read("manifest.json"))
        for part in manifest["parts"]:
            if "missing" not in part:
                content = archive.read(part["file"])
                assert (len(content), hashlib.sha256(content).hexdigest()) == (part["bytes"], part["sha256"])
        listed = [part["file"] for part in manifest["parts"] if "missing" not in part]
        assert archive.namelist() == [*listed, "manifest.json"]
    return manifest


def test_a_bundle_has_its_parts_and_a_manifest_of_them(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with BundleFile(path, SecretMask()) as bundle:
        bundle.add_text("a/x.txt", b"text\n", cut="the end")
        bundle.add_json("a/y.json", {"a": [1, 2]}, http_status=200)
        bundle.miss("a/z.json", "HTTP 404")
        size = bundle.finish({"brokers": "b:1"})
    assert path.stat().st_size == size
    assert path.stat().st_mode & 0o777 == 0o600
    manifest = written(path)
    assert (manifest["format"], manifest["brokers"]) == (1, "b:1")
    assert [(part["file"], part.get("cut"), part.get("missing")) for part in manifest["parts"]] == [
        ("a/x.txt", "the end", None),
        ("a/y.json", None, None),
        ("a/z.json", None, "HTTP 404"),
    ]
    assert os.listdir(tmp_path) == ["b.zip"]


def make_empty(path: Path) -> None:
    with BundleFile(path, SecretMask()) as bundle:
        bundle.finish({})


@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing"])
def test_a_name_that_is_taken_is_refused_and_kept(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "b.zip"
    if kind == "file":
        path.write_bytes(b"mine")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "nothing")
    with pytest.raises(BundleError, match="exists already; name another file with --out"):
        make_empty(path)
    assert os.listdir(tmp_path) == ["b.zip"]


@pytest.mark.parametrize("path", [".", "..", "/"])
def test_a_directory_without_a_name_is_taken(path: str) -> None:
    with pytest.raises(BundleError, match="exists already"):
        make_empty(Path(path))


def test_a_name_that_is_taken_meanwhile_is_kept_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with BundleFile(path, SecretMask()) as bundle:
        path.write_bytes(b"mine")
        with pytest.raises(BundleError, match="exists by now"):
            bundle.finish({})
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["b.zip"]


def test_a_file_system_without_hard_links_gets_a_bundle_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    make_empty(tmp_path / "b.zip")
    written(tmp_path / "b.zip")
    assert os.listdir(tmp_path) == ["b.zip"]


@pytest.mark.parametrize("place", ["no/b.zip", "file/b.zip", "/proc/b.zip"])
def test_a_place_that_cannot_be_written_to_is_one_line(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BundleError, match=r"^cannot write \S+b\.zip: [A-Z].+$"):
        make_empty(tmp_path / place)


def interrupt_a_part(path: Path, _: pytest.MonkeyPatch) -> None:
    with BundleFile(path, SecretMask()) as bundle:
        bundle.add_text("x", b"x")
        raise KeyboardInterrupt


def interrupt_the_opening(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile, "ZipFile", interrupted)
    make_empty(path)


@pytest.mark.parametrize("interrupt", [interrupt_a_part, interrupt_the_opening])
def test_nothing_stays_of_a_bundle_that_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupt: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path / "b.zip", monkeypatch)
    assert os.listdir(tmp_path) == []


def fill_with_a_part(folder: Path) -> None:
    with BundleFile(folder / "b.zip", SecretMask()) as bundle:
        bundle.add_text("x", os.urandom(1024 * 1024))
        bundle.finish({})


def fill_before_the_end(folder: Path) -> None:
    """Leave no room for the end of the zip, which is written last."""
    with BundleFile(folder / "b.zip", SecretMask()) as bundle:
        status = os.statvfs(folder)
        (folder / "other").write_bytes(bytes(status.f_bavail * status.f_frsize))
        bundle.finish({})


@pytest.mark.parametrize(("fill", "left"), [(fill_with_a_part, []), (fill_before_the_end, ["other"])])
def test_nothing_stays_of_a_bundle_on_a_full_disk(
    tmp_path: Path, fill: Callable[[Path], None], left: list[str]
) -> None:
    with small_disk(tmp_path, 256 * 1024):
        with pytest.raises(BundleError, match=r"b\.zip: No space left on device"):
            fill(tmp_path)
        assert os.listdir(tmp_path) == left


def test_nothing_stays_of_a_bundle_over_the_limit_on_the_size_of_files(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from raftka.debug.bundle_file import BundleFile;"
        "from raftka.debug.secret_mask import SecretMask\n"
        "with BundleFile(Path(sys.argv[1]), SecretMask()) as bundle:\n"
        "    bundle.add_text('x', os.urandom(1 << 20)); bundle.finish({})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "b.zip")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024)),
    )
    assert "BundleError: cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_bundle_has_a_bound_and_says_what_it_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_file, "_RESERVED_BYTES", 1000)
    path = tmp_path / "b.zip"
    with BundleFile(path, SecretMask(), bytes_max=5000) as bundle:
        for number in range(4):
            bundle.add_text(f"{number}", b"." * 1800)
        bundle.add_json("long", ["x" * 399])
        bundle.add_json("short", [[1, 2]] * 2)
        assert bundle.room < 400
        bundle.finish({})
    parts = written(path)["parts"]
    assert ["missing" in part for part in parts] == [False, False, True, True, True, False]
    assert "too many" in parts[2]["missing"]


def test_json_that_is_nested_too_deeply_is_left_out(tmp_path: Path) -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with BundleFile(tmp_path / "b.zip", SecretMask()) as bundle:
        bundle.add_json("deep", value)
        bundle.finish({})
        assert bundle.parts == [{"file": "deep", "missing": "lists or objects in it are nested too deeply"}]
    # Not by recursion, as the interpreter would.
    while value:
        value = value.pop()


def test_secrets_are_hidden_in_parts_and_in_the_manifest(tmp_path: Path) -> None:
    mask = SecretMask()
    mask.learn("hunter2-hunter2")
    with BundleFile(tmp_path / "b.zip", mask) as bundle:
        bundle.add_text("a", b"x hunter2-hunter2")
        bundle.add_json("b", {"a": "hunter2-hunter2"})
        bundle.miss("c", "no hunter2-hunter2")
        bundle.finish({"brokers": "hunter2-hunter2"})
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        for name in archive.namelist():
            assert b"hunter2" not in archive.read(name)
            assert b"(hidden)" in archive.read(name)
