"""`raftka debug` with real brokers: logs read offline, and bundles without secrets, whatever the brokers do."""

import base64
import hashlib
import json
import os
import re
import shutil
import signal
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftka.dev.cluster_file import ClusterFolder
from tests.process.command_line import RAFTKA, DevFolder, raftka, start_detached, started
from tests.small_disks import small_disk

pytestmark = pytest.mark.process

MARKER = "a-marker-in-a-record-and-nowhere-else"
TOKEN = "pl4nted-t0ken-of-an-admin"
PASSWORD = "pl4nted-p4ssword"
NOBODY = "127.0.0.1:1"


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevFolder]:
    """Three brokers with a topic `orders`, records and a group."""
    folder = start_detached(tmp_path / "dev", 3)
    try:
        folder.client("topic", "create", "orders", "-p", "2", "-r", "3")
        folder.client("produce", "orders", "--acks", "all", stdin=f"{MARKER}\n" * 20)
        folder.client("consume", "orders", "-g", "readers", "-n", "5")
        yield folder
    finally:
        folder.dev("stop")


def data_dir(dev: DevFolder, node: int) -> Path:
    return ClusterFolder(dev.path).node_path(node) / "data"


def picture(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Return size, time of change and content of everything below a folder."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path)] = (status.st_size, status.st_mtime_ns, content)
    return found


def read_bundle(path: Path) -> tuple[dict[str, bytes], dict[str, dict[str, Any]]]:
    """Return the parts of a bundle by name, and what its manifest says of each."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        contents = {name: archive.read(name) for name in archive.namelist()}
    parts = {part["file"]: part for part in json.loads(contents["manifest.json"])["parts"]}
    for name, part in parts.items():
        if "missing" in part:
            assert name not in contents
            assert part["missing"]
        else:
            assert hashlib.sha256(contents[name]).hexdigest() == part["sha256"]
    return contents, parts


def refusal(*arguments: str) -> str:
    """Return the one line that a command that fails says on stderr."""
    done = raftka(*arguments, code=1)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_log_is_read_offline_by_the_name_of_its_topic_and_stays_as_it_was(dev: DevFolder) -> None:
    data, pid = data_dir(dev, 1), dev.status()[0]["pid"]
    groups = sorted((data / "groups").iterdir())
    for directory in (data, groups[0]):
        line = refusal("debug", "log", str(directory))
        assert f"{data} is in use by pid {pid}: stop that broker, or read a copy of the directory" in line
    dev.dev("kill", "1")
    before = picture(data)
    listed = raftka("debug", "log", str(data)).stdout.splitlines()
    names = [line.split()[0] for line in listed[1:]]
    assert names[0] == "raft0"
    assert {"orders-0", "orders-1"} <= set(names)
    kinds = set()
    # Not every group of the groups: there are many of `__consumer_offsets`, and all of one kind.
    for line in [each for each in listed[1:] if each.startswith(("raft0", "orders", "__consumer_offsets-0"))]:
        name, directory = line.split()[0], line.split()[3]
        shown = raftka("debug", "log", directory).stdout
        assert shown.startswith(f"log of {name}")
        assert shown.endswith("no damage\n")
        assert MARKER not in shown
        rows = [json.loads(each) for each in raftka("debug", "log", directory, "-f", "json").stdout.splitlines()]
        kinds |= {row["kind"] for row in rows if row["type"] == "entry"}
        assert MARKER not in json.dumps(rows)
    assert {"barrier", "command", "data"} <= kinds
    assert picture(data) == before
    # And a broker takes it as before.
    dev.dev("restart", "1")


def test_damage_of_a_log_is_told_with_its_place_and_exit_code_1(dev: DevFolder) -> None:
    dev.dev("stop")
    directory = next(path for path in (data_dir(dev, 1) / "groups").iterdir() if path.name == "raft0")
    (segment,) = directory.glob("*.log")
    content = bytearray(segment.read_bytes())
    content[10] ^= 1
    segment.write_bytes(content)
    before = picture(directory)
    done = raftka("debug", "log", str(directory), code=1)
    assert f"DAMAGE {segment}, byte 0: " in done.stdout
    # What lies behind it is read.
    assert "  entry 2 term " in done.stdout
    assert done.stderr == ""
    assert picture(directory) == before
    with started([*RAFTKA, "debug", "log", str(directory)]) as process:
        assert process.stdout is not None
        # Whoever reads it has seen enough.
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_bad_directory_of_a_log_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    assert f"{gone} cannot be read: No such file or directory" in refusal("debug", "log", str(gone))
    assert "neither a log directory nor a data directory" in refusal("debug", "log", str(tmp_path))
    for option in (["--from", "0"], ["--limit", "0"], ["--from", "x"]):
        raftka("debug", "log", str(tmp_path), *option, code=64)


def plant(dev: DevFolder) -> list[bytes]:
    """Plant what must not be in a bundle where brokers and people may leave it; return its forms."""
    folder = ClusterFolder(dev.path)
    secret = folder.secret_path.read_bytes()
    elsewhere = dev.path.parent / "pl4nted-path-of-a-file"
    elsewhere.write_text(f"{PASSWORD}\n")
    with folder.log_path(1).open("ab") as log:
        log.write(f"Authorization: Bearer {TOKEN}\nadmin.token = {TOKEN}\ntoken: {TOKEN}\n".encode())
        log.write(f"cluster.secret.file: {folder.secret_path} has mode 0640\ncannot read {elsewhere}\n".encode())
        log.write(secret + b"\n" + secret.hex().encode() + b"\n" + base64.b64encode(secret) + b"\n")
        log.write(f"somebody typed {PASSWORD} here\n".encode())
    with (folder.node_path(1) / "broker.toml").open("a") as file:
        file.write(f'sasl.password = "{TOKEN}"\n')
    # Somebody has made a mistake: a key cannot be a value and a table.
    with (folder.node_path(2) / "broker.toml").open("a") as file:
        file.write(f'admin.token = "{TOKEN}"\nadmin.token.file = "{elsewhere}"\n')
    planted = [secret, secret.hex().encode(), base64.b64encode(secret)[:-2], str(folder.secret_path).encode()]
    return [*planted, str(elsewhere).encode(), TOKEN.encode(), PASSWORD.encode(), MARKER.encode()]


def test_a_bundle_has_all_parts_of_a_running_cluster_and_nothing_that_is_planted(
    dev: DevFolder, tmp_path: Path
) -> None:
    planted = plant(dev)
    out = tmp_path / "b.zip"
    done = raftka("debug", "bundle", "--out", str(out), "--data-dir", str(dev.path), RAFTKA_ADMIN_TOKEN=TOKEN)
    assert re.search(rf"^{out}: \d+ parts, {out.stat().st_size} bytes$", done.stdout, re.MULTILINE)
    contents, parts = read_bundle(out)
    for name, content in contents.items():
        for each in planted:
            assert each not in content, f"{each!r} in {name}"
    for node in (1, 2, 3):
        have = {"config.json", "ready.json", "events.json", "bounds.json", "brokers.json", "metrics.txt"}
        assert {f"brokers/{node}/{name}" for name in have} <= contents.keys()
        assert b"raftka_" in contents[f"brokers/{node}/metrics.txt"]
        configs = {row["key"]: row["value"] for row in json.loads(contents[f"brokers/{node}/config.json"])}
        assert (configs["node.id"], configs["cluster.secret.file"]) == (str(node), "(hidden)")
        # A broker of another version may lack a page.
        assert f"brokers/{node}/health.json" in parts
        assert b"INFO" in contents[f"dev/node-{node}/broker.log"]
    topics = {topic["topic"]: topic["partitions"] for topic in json.loads(contents["cluster/topics.json"])["topics"]}
    assert [len(each["replicas"]) for each in topics["orders"]] == [3, 3]
    assert [group["name"] for group in json.loads(contents["cluster/groups.json"])] == ["readers"]
    assert "findings" in json.loads(contents["doctor.json"])
    assert json.loads(contents["machine/kernel.json"])["release"] == os.uname().release
    assert [each["alive"] for each in json.loads(contents["dev/cluster.json"])] == [True] * 3
    assert json.loads(contents["dev/node-1/broker.toml.json"])["sasl.password"] == "(hidden)"
    assert "missing" in parts["dev/node-2/broker.toml.json"]
    # What is no secret is kept in the line that has one.
    assert b"has mode 0640" in contents["dev/node-1/broker.log"]


def test_a_bundle_of_a_cluster_with_dead_and_paused_brokers_says_what_is_missing(
    dev: DevFolder, tmp_path: Path
) -> None:
    dev.dev("kill", "3")
    paused = dev.status()[1]["pid"]
    os.kill(paused, signal.SIGSTOP)
    try:
        out = tmp_path / "b.zip"
        raftka("debug", "bundle", "--out", str(out), "--data-dir", str(dev.path), "--timeout", "40")
    finally:
        os.kill(paused, signal.SIGCONT)
    contents, parts = read_bundle(out)
    assert "brokers/1/metrics.txt" in contents
    assert "timed out" in parts["brokers/2/ready.json"]["missing"]
    assert "not asked for" in parts["brokers/2/metrics.txt"]["missing"]
    assert "refused" in parts["brokers/3/ready.json"]["missing"]
    assert parts["dev/node-3/limits.txt"]["missing"] == "the broker does not run"
    assert "dev/node-3/broker.log" in contents


def test_a_bundle_of_a_dead_cluster_without_its_data_has_the_rest(dev: DevFolder, tmp_path: Path) -> None:
    for node in (1, 2, 3):
        dev.dev("kill", str(node))
    shutil.rmtree(ClusterFolder(dev.path).node_path(2))
    out = tmp_path / "b.zip"
    done = raftka("debug", "bundle", "--out", str(out), "--data-dir", str(dev.path), "--admin", NOBODY)
    assert "missing cluster/topics.json: no Kafka broker answers at" in done.stdout
    contents, parts = read_bundle(out)
    assert "No such file or directory" in parts["dev/node-2/broker.log"]["missing"]
    assert {"dev/node-1/broker.log", "machine/versions.json", "doctor.json"} <= contents.keys()
    disks = {row["folder"]: row for row in json.loads(contents["machine/disks.json"])}
    assert disks[str(data_dir(dev, 2))]["error"] == "No such file or directory"
    assert parts[f"brokers/{NOBODY.replace(':', '-')}/ready.json"]["missing"]
    assert "No such file or directory" in refusal("debug", "log", str(data_dir(dev, 2)))


def test_a_bundle_that_cannot_be_written_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path, 64 * 1024):
        (tmp_path / "filler").write_bytes(bytes(60 * 1024))
        where = ["--brokers", NOBODY, "--out"]
        # What the machine says of itself needs more.
        assert "b.zip: No space left on device" in refusal("debug", "bundle", *where, str(tmp_path / "b.zip"))
        assert "filler exists already" in refusal("debug", "bundle", *where, str(tmp_path / "filler"))
        assert "No such file or directory" in refusal("debug", "bundle", *where, str(tmp_path / "no" / "b.zip"))
        line = refusal("debug", "bundle", "--data-dir", str(tmp_path / "no"), "--out", str(tmp_path / "b.zip"))
        assert f"there is no cluster in {tmp_path}/no" in line
        assert [path.name for path in tmp_path.iterdir()] == ["filler"]


def test_a_bundle_that_is_stopped_leaves_nothing(dev: DevFolder, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    paused = [each["pid"] for each in dev.status()]
    for pid in paused:
        os.kill(pid, signal.SIGSTOP)
    try:
        command = [*RAFTKA, "debug", "bundle", "--out", str(folder / "b.zip"), "--data-dir", str(dev.path)]
        with started(command) as process:
            while not list(folder.iterdir()):
                assert process.poll() is None
            # Python's ZipFile makes the file first. What interrupts the rest of its constructor makes its end complain.
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 130
            assert process.stderr is not None
            assert process.stderr.read() == ""
    finally:
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
    assert list(folder.iterdir()) == []
