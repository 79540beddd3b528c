"""What `pip install raftka` gives: one package, one command, and a broker that runs from it.

The source archive is built from the checkout and the wheel from that archive, as a release is. The wheel goes
into an environment of its own, which borrows the dependencies of the one that runs the tests instead of
downloading them again.
"""

import os
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
BROKER_PACKAGES = ("runtime", "model", "storage", "rpc", "raft", "cluster", "kafka_api")
NOT_SHIPPED = ("tests", "benchmarks")

START_SECONDS = 30
STOP_SECONDS = 20


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=clean_environment(), capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def clean_environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without what would lend the checkout to the installed program."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "RAFTKA_"))}
    return {**kept, **(settings or {})}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the source archive and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `bin` folder of a fresh environment that holds the wheel."""
    home = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", "--without-pip", home, cwd=home)
    python = home / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install"),
        *("--quiet", "--no-deps", "--no-index", wheel),
        cwd=home,
    )
    # A path named in a .pth file is searched, but .pth files found there are not read: the dependencies come
    # along, the checkout's editable installation does not.
    paths = sysconfig.get_paths()
    site_packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    borrowed = dict.fromkeys([paths["purelib"], paths["platlib"]])
    Path(site_packages, "borrowed_dependencies.pth").write_text("\n".join(borrowed) + "\n")
    return home / "bin"


def test_the_wheel_holds_raftka_and_nothing_beside_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    top_level = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top_level == {"raftka"}
    for package in BROKER_PACKAGES:
        assert f"raftka/_broker/{package}/__init__.py" in names
    assert "raftka/_broker/__init__.py" not in names, "a folder for sys.path, not a package"
    assert "raftka/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_every_source_of_the_checkout_is_in_the_wheel(wheel: Path) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in (*BROKER_PACKAGES, "raftka")
        for path in (ROOT / package).rglob("*.py")
    }
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name.removeprefix("raftka/_broker/") for name in archive.namelist() if name.endswith(".py")}
    assert shipped == wanted


def test_the_source_archive_holds_what_a_build_needs_and_no_tests(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt"} <= names
    assert not {name for name in names if name.split("/")[0] in NOT_SHIPPED}


def test_an_installation_adds_no_plain_names_to_the_environment(installed: Path) -> None:
    names = (*BROKER_PACKAGES, *NOT_SHIPPED)
    script = f"import importlib.util as u; print([name for name in {names!r} if u.find_spec(name)])"
    assert run(installed / "python", "-c", script, cwd=installed).strip() == "[]"
    refused = subprocess.run(
        [installed / "python", "-I", "-c", "import storage"], capture_output=True, text=True, timeout=60
    )
    assert "ModuleNotFoundError" in refused.stderr


def test_the_command_tells_its_version(installed: Path) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    assert version in run(installed / "raftka", "--version", cwd=installed)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextmanager
def broker(installed: Path, folder: Path, kafka_port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run `raftka start` as a cluster of one, configured by environment variables only."""
    rpc_port, admin_port = free_ports(2)
    settings = {
        "RAFTKA_NODE_ID": "1",
        "RAFTKA_KAFKA_PORT": str(kafka_port),
        "RAFTKA_RPC_PORT": str(rpc_port),
        "RAFTKA_ADMIN_PORT": str(admin_port),
        "RAFTKA_DATA_DIR": str(folder / "data"),
    }
    with (folder / "broker.log").open("wb") as log:
        process = subprocess.Popen(
            [installed / "raftka", "start"],
            cwd=folder,
            env=clean_environment(settings),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def test_a_broker_starts_from_the_installation_and_answers_a_client(installed: Path, tmp_path: Path) -> None:
    (kafka_port,) = free_ports(1)
    with broker(installed, tmp_path, kafka_port) as process:
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{kafka_port}", "log_level": 0})
        try:
            # librdkafka dials again until the deadline; its answer took ApiVersions and Metadata.
            cluster = client.list_topics(timeout=START_SECONDS)
        except KafkaException as error:
            error.add_note((tmp_path / "broker.log").read_text(errors="replace"))
            raise
        assert [(member.id, member.port) for member in cluster.brokers.values()] == [(1, kafka_port)]
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0, (tmp_path / "broker.log").read_text(errors="replace")
