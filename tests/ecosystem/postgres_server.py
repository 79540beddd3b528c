"""A PostgreSQL server on loopback, whose programs come from Maven Central in a jar."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

from raftka.dev.ports import LOOPBACK, PortRequest, choose_addresses
from tests.process.broker_processes import eventually

USER = DATABASE = "postgres"
_START_SECONDS = 60.0
_END_SECONDS = 30.0


class PostgresServer:
    """It starts at once, with logical decoding; whoever makes it calls `close`.

    Args:
        jar: Holds the programs.
        log: What it says.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, jar: Path, log: Path) -> None:
        self.port = int(choose_addresses(1, PortRequest(0, 0, 0))[0].admin.rpartition(":")[2])
        self._log = log
        # PostgreSQL refuses root. The folder of a test belongs to root alone, who runs the tests in a container.
        self._folder = Path(tempfile.mkdtemp(prefix="raftka-postgres-"))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._unpack(jar)
            self._start()
        except BaseException:
            # Also a time-out of the test or Ctrl-C: a server that runs and its folder must not be left.
            self.close()
            raise

    def close(self) -> None:
        """End it, and remove its data."""
        if self._process is not None:
            # A fast shutdown: it ends its sessions.
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder)

    def _unpack(self, jar: Path) -> None:
        with zipfile.ZipFile(jar) as outer:
            (name,) = (each for each in outer.namelist() if each.endswith(".txz"))
            with outer.open(name) as packed, tarfile.open(fileobj=packed, mode="r|xz") as archive:
                # Python 3.11 has no such filter before 3.11.4, and newer versions warn without one.
                if hasattr(tarfile, "data_filter"):
                    archive.extraction_filter = tarfile.data_filter
                archive.extractall(self._folder)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)

    def _start(self) -> None:
        data = str(self._folder / "data")
        settings = {
            "port": self.port,
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "wal_level": "logical",
            # Nothing here outlives a crash of the machine.
            "fsync": "off",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._log.open("ab") as output:
            initdb = [*self._program("initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync"]
            made = subprocess.run(initdb, cwd=self._folder, stdout=output, stderr=output, timeout=60, check=False)
            assert made.returncode == 0, self.log_end()
            self._process = subprocess.Popen(
                [*self._program("postgres"), "-D", data, *words], cwd=self._folder, stdout=output, stderr=output
            )
        eventually(lambda: f"PostgreSQL listens:{self.log_end()}", self._listens, _START_SECONDS)

    def _program(self, name: str) -> list[str]:
        program = str(self._folder / "bin" / name)
        if os.geteuid() != 0:
            return ["setpriv", "--pdeathsig", "KILL", program]
        nobody = pwd.getpwnam("nobody")
        identity = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        return ["setpriv", *identity, "--pdeathsig", "KILL", program]

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log_end()
        try:
            socket.create_connection((LOOPBACK, self.port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def log_end(self) -> str:
        """Return the end of the log, for an assertion message."""
        return f"\n{self._log.read_text(errors='replace')[-2_000:]}"
