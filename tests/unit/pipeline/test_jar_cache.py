"""Files of a cache of JARs: fetched once, checked at every use, whole or not there."""

import os
import stat
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from raftka.pipeline import jar_cache
from raftka.pipeline.jar_cache import JarCache, JarMissingError, Repository
from tests.small_disks import small_disk
from tests.unit.pipeline.maven_repository import DATA, FILES, JARS, Answer, MavenRepository, ignore, jar_of, send

NOBODY = "http://127.0.0.1:1/maven"
JAR = JARS[0]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def cache(folder: Path, *urls: str) -> JarCache:
    return JarCache(folder, [Repository.parse(url) for url in urls], ignore)


def refusal(folder: Path, *urls: str) -> str:
    with pytest.raises(JarMissingError) as raised:
        cache(folder, *urls).path_of(JAR)
    return str(raised.value)


def test_a_file_is_fetched_once_and_then_needs_no_network(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    with MavenRepository() as repository:
        path = cache(folder, repository.url).path_of(JAR)
        assert cache(folder, repository.url).path_of(JAR) == path
        assert repository.asked == [f"/maven/{JAR.path}"]
    assert path.read_bytes() == DATA[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert cache(folder, NOBODY).path_of(JAR) == path
    assert [each.name for each in folder.iterdir()] == [JAR.name]


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(DATA[0][:-1]),
        lambda path: path.write_bytes(DATA[0] + b"x"),
        lambda path: path.write_bytes(b"F" + DATA[0][1:]),
        lambda path: path.write_bytes(b""),
    ],
    ids=["cut", "longer", "flipped", "empty"],
)
def test_a_damaged_file_is_fetched_again_and_without_network_named(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    path = tmp_path / JAR.name
    damage(path)
    assert refusal(tmp_path, NOBODY) == (
        f"{path} is damaged, and it could not be fetched from {NOBODY} (Connection refused)"
    )
    with MavenRepository() as repository:
        assert cache(tmp_path, repository.url).path_of(JAR).read_bytes() == DATA[0]


def test_a_folder_in_a_files_place_is_named(tmp_path: Path) -> None:
    (tmp_path / JAR.name).mkdir()
    with MavenRepository() as repository:
        said = refusal(tmp_path, repository.url)
    assert said.startswith(f"{tmp_path / JAR.name} cannot be read (Is a directory), and it could not be written to")
    assert [each.name for each in tmp_path.iterdir()] == [JAR.name]


def test_the_next_repository_is_asked_if_one_does_not_have_the_file(tmp_path: Path) -> None:
    with MavenRepository(files={}) as empty, MavenRepository() as full:
        assert cache(tmp_path, NOBODY, empty.url, full.url).path_of(JAR).read_bytes() == DATA[0]
        (tmp_path / JAR.name).unlink()
        assert refusal(tmp_path, NOBODY, empty.url) == (
            f"{JAR.name} could not be fetched from {NOBODY} (Connection refused), from {empty.url} (it answers 404"
            " Not Found)"
        )


def _hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


def _endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"x" * 65_536)
    except ConnectionError:
        pass


def _in_circles(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("Location", handler.path)
    handler.end_headers()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda handler: send(handler, DATA[0][:100], len(DATA[0])), "the answer ends after 100 of 150000 bytes"),
        (lambda handler: send(handler, b"<html>sign in</html>"), "the answer ends after 20 of 150000 bytes"),
        (lambda handler: send(handler, b"x" * len(DATA[0])), "its SHA-256 is "),
        (_endless, "the answer is longer than 150000 bytes"),
        (lambda handler: handler.send_error(503), "it answers 503 Service Unavailable"),
        (_hang_up, "Remote end closed connection without response"),
        (lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n"), "no proper answer"),
        (_in_circles, "it answers 302"),
    ],
    ids=["cut", "page", "other bytes", "endless", "busy", "hangs up", "no HTTP", "redirects"],
)
def test_a_wrong_answer_is_named_and_leaves_nothing(tmp_path: Path, answer: Answer, reason: str) -> None:
    with MavenRepository(answer) as repository:
        said = refusal(tmp_path, repository.url)
    assert said.startswith(f"{JAR.name} could not be fetched from {repository.url} (")
    assert reason in said
    assert "\n" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_answer_leaves_a_former_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / JAR.name).write_bytes(b"old")
    with MavenRepository(lambda handler: send(handler, b"short", len(DATA[0]))) as repository:
        refusal(tmp_path, repository.url)
    assert (tmp_path / JAR.name).read_bytes() == b"old"


def test_a_repository_that_never_ends_its_answer_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jar_cache, "_FILE_SECONDS", 0.0)
    with MavenRepository() as repository:
        assert "not complete after 0 s" in refusal(tmp_path, repository.url)


def test_a_repository_may_be_a_folder(tmp_path: Path) -> None:
    place = tmp_path / "mirror" / JAR.path
    place.parent.mkdir(parents=True)
    # As a local Maven repository is, half filled.
    place.with_suffix(".pom").write_text("<project/>")
    url = (tmp_path / "mirror").as_uri()
    assert refusal(tmp_path / "cache", url) == f"{JAR.name} could not be fetched from {url} (No such file or directory)"
    place.write_bytes(DATA[0])
    assert cache(tmp_path / "cache", url).path_of(JAR).read_bytes() == DATA[0]


def test_a_password_reaches_the_repository_and_neither_errors_nor_other_hosts(tmp_path: Path) -> None:
    with MavenRepository() as elsewhere:

        def redirect(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", elsewhere.url.removesuffix("/maven") + handler.path)
            handler.end_headers()

        with MavenRepository(redirect) as repository:
            url = repository.url.replace("//", "//me:p%40ss@")
            assert cache(tmp_path, url).path_of(JAR).read_bytes() == DATA[0]
            assert repository.passwords == ["Basic bWU6cEBzcw=="]
            assert elsewhere.passwords == [None]
    assert "p%40ss" not in refusal(tmp_path / "other", url)


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    data = os.urandom(1 << 20)
    jar = jar_of("large", "1.0", data)
    with (
        small_disk(tmp_path, 256 * 1024) as folder,
        MavenRepository(files=FILES | {f"/maven/{jar.path}": data}) as repository,
    ):
        with pytest.raises(JarMissingError) as raised:
            cache(folder, repository.url).path_of(jar)
        assert str(raised.value) == f"{jar.name} could not be written to {folder} (No space left on device)"
        assert list(folder.iterdir()) == []
        assert cache(folder, repository.url).path_of(JAR).read_bytes() == DATA[0]


def test_a_read_only_folder_serves_what_it_has_and_is_named_for_what_it_lacks(tmp_path: Path) -> None:
    # A file system of its own: root writes into every folder, whatever its mode is.
    with small_disk(tmp_path, 1 << 20) as folder, MavenRepository() as repository:
        path = cache(folder, repository.url).path_of(JAR)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        assert cache(folder, repository.url).path_of(JAR) == path
        with pytest.raises(JarMissingError, match=r"^second-2\.0\.jar could not be written to .* \(Read-only file sys"):
            cache(folder, repository.url).path_of(JARS[1])
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        path.write_bytes(b"damaged")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        assert refusal(folder, repository.url) == (
            f"{path} is damaged, and it could not be written to {folder} (Read-only file system)"
        )


def test_a_file_in_the_folders_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with MavenRepository() as repository:
        assert "could not be written to" in refusal(tmp_path / "cache" / "jars", repository.url)
        assert repository.asked == []


def test_several_who_fetch_at_once_all_get_the_file(tmp_path: Path) -> None:
    with MavenRepository() as repository, ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: cache(tmp_path, repository.url).path_of(JAR), range(16)))
    assert {path.read_bytes() for path in paths} == {DATA[0]}
    assert [each.name for each in tmp_path.iterdir()] == [JAR.name]


def test_what_a_killed_process_left_is_removed_once_it_is_old(tmp_path: Path) -> None:
    old, young = tmp_path / f"{JAR.name}.a.part", tmp_path / f"{JAR.name}.b.part"
    for each in (old, young):
        each.write_bytes(b"half")
    day_before = time.time() - 2 * 86_400
    os.utime(old, (day_before, day_before))
    with MavenRepository() as repository:
        cache(tmp_path, repository.url).path_of(JAR)
    assert not old.exists()
    assert young.exists()
