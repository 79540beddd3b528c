"""JARs by SHA-256: fetched once from a Maven repository into a folder of Raftka's own, and checked at every use.

Invariant P7 of RFC 0010: a path that `JarCache.path_of` returns has the bytes of the pinned SHA-256. Nothing in the
folder is trusted: a torn, damaged or foreign file is fetched again.
"""

import hashlib
import os
import time
from base64 import b64encode
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from raftka.error_text import reason_of, short_reason_of

_CHUNK_BYTES = 1 << 16
_ANSWER_SECONDS = 20.0
_FILE_SECONDS = 300.0
_STALE_SECONDS = 86_400.0
_PART = ".part"
_SCHEMES = ("https", "http", "file")


class JarMissingError(Exception):
    """A JAR is not in the cache and did not get there: a line without a full stop, which names the file and why."""


class _FetchError(Exception):
    """A repository did not give a file; the next one may."""


class Jar(NamedTuple):
    """A file of a Maven repository: its coordinates, its size in bytes, the SHA-256 of its bytes in hexadecimal."""

    group: str
    artifact: str
    version: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Where a Maven repository has it."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"

    @property
    def coordinates(self) -> str:
        """As Maven and Spark name it."""
        return f"{self.group}:{self.artifact}:{self.version}"


@dataclass(frozen=True)
class Repository:
    """A Maven repository.

    Attributes:
        url: Without user, password and a slash at its end: errors and logs show it.
        authorization: A header's value; None: none is sent.
    """

    url: str
    authorization: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Repository":
        """Return the repository of a URL, which may hold `user:password@`.

        Raises:
            ValueError: Not a URL of https, http or file.
        """
        parts = urlsplit(text)
        userinfo, _, address = parts.netloc.rpartition("@")
        shown = parts._replace(netloc=address, query="", fragment="").geturl().rstrip("/")
        if parts.scheme not in _SCHEMES or (parts.scheme != "file" and not parts.hostname):
            raise ValueError(f"{shown!r} is not a URL of a Maven repository: use https://, http:// or file://")
        header = f"Basic {b64encode(unquote(userinfo).encode()).decode()}" if userinfo else None
        return cls(shown, header)

    def chunks(self, jar: Jar) -> Generator[bytes, None, None]:
        """Yield a file's bytes, never more of them than it has.

        Raises:
            _FetchError: The repository does not answer, or answers with something else.
        """
        import http.client
        import urllib.error
        import urllib.request

        request = urllib.request.Request(f"{self.url}/{quote(jar.path)}", headers={"User-Agent": "raftka"})
        if self.authorization is not None:
            # A redirect leads to another host, which the password is not for.
            request.add_unredirected_header("Authorization", self.authorization)
        deadline, left = time.monotonic() + _FILE_SECONDS, jar.size
        try:
            # Proxies and certificates are those of the environment: https_proxy, no_proxy, SSL_CERT_FILE.
            with closing(urllib.request.urlopen(request, timeout=_ANSWER_SECONDS)) as answer:
                # read1: read would wait for a whole chunk, however slowly its bytes come.
                while chunk := answer.read1(_CHUNK_BYTES):
                    left -= len(chunk)
                    if left < 0:
                        raise _FetchError(f"the answer is longer than {jar.size} bytes")
                    if time.monotonic() > deadline:
                        raise _FetchError(f"not complete after {_FILE_SECONDS:.0f} s")
                    yield chunk
        except urllib.error.HTTPError as error:
            # Not the words of the answer, nor urllib's of a loop: they may have several lines.
            words = http.client.responses.get(error.code, "")
            with closing(error):
                raise _FetchError(f"it answers {error.code} {words}".rstrip()) from None
        except urllib.error.URLError as error:
            # Its reason is text or an exception.
            reason = error.reason
            raise _FetchError(short_reason_of(reason) if isinstance(reason, OSError) else str(reason)) from None
        except http.client.HTTPException as error:
            raise _FetchError(f"no proper answer: {reason_of(error)}") from None
        except OSError as error:
            raise _FetchError(short_reason_of(error)) from None
        if left:
            raise _FetchError(f"the answer ends after {jar.size - left} of {jar.size} bytes")


class JarCache:
    """A folder of JARs. Several processes may use one: a file appears by rename, and all write the same bytes."""

    def __init__(self, folder: Path, repositories: Sequence[Repository], told: Callable[[str], None]) -> None:
        """Take the folder, which need not exist, the repositories in the order of asking, and a taker of lines."""
        self._folder = folder
        self._repositories = repositories
        self._told = told

    def path_of(self, jar: Jar) -> Path:
        """Return where a JAR is. It is read whole; nothing else is done where it is there, so no network is needed.

        Raises:
            JarMissingError: It is not there as it must be, and could not be fetched.
        """
        path = self._folder / jar.name
        damage = _damage(path, jar)
        if damage is None:
            return path
        begin = f"{path} {damage}, and it" if damage else jar.name
        reasons = []
        for repository in self._repositories:
            try:
                self._fetch(jar, path, repository)
            except _FetchError as error:
                reasons.append(f"from {repository.url} ({error})")
            except OSError as error:
                # Of the folder: those of the network are _FetchError.
                raise JarMissingError(
                    f"{begin} could not be written to {self._folder} ({short_reason_of(error)})"
                ) from None
            else:
                self._told(f"fetched {jar.name} from {repository.url} into {self._folder}")
                return path
        raise JarMissingError(f"{begin} could not be fetched {', '.join(reasons) or 'for want of a repository'}")

    def _fetch(self, jar: Jar, path: Path, repository: Repository) -> None:
        """Put a file into its place, whole, or leave the place as it is.

        Raises:
            _FetchError: The repository did not give the file.
            OSError: The folder did not take it.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        _remove_stale(self._folder)
        # Not deleted by the context: it is renamed.
        part = NamedTemporaryFile(dir=self._folder, prefix=f"{jar.name}.", suffix=_PART, delete=False)  # noqa: SIM115
        try:
            with part, closing(repository.chunks(jar)) as chunks:
                digest = hashlib.sha256()
                for chunk in chunks:
                    digest.update(chunk)
                    part.write(chunk)
                if digest.hexdigest() != jar.sha256:
                    raise _FetchError(f"its SHA-256 is {digest.hexdigest()} and must be {jar.sha256}")
                # A cache may belong to a whole machine.
                os.fchmod(part.fileno(), 0o644)
            # No fsync: what a power failure tears is found by its checksum, and fetched again.
            os.replace(part.name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(part.name)
            raise


def _damage(path: Path, jar: Jar) -> str | None:
    """Return what is wrong with a file, as a predicate; "": there is none; None: nothing is wrong."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            # By size first: what is too long is not read.
            if os.fstat(stream.fileno()).st_size != jar.size:
                return "is damaged"
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"cannot be read ({short_reason_of(error)})"
    return None if digest.hexdigest() == jar.sha256 else "is damaged"


def _remove_stale(folder: Path) -> None:
    """Remove what killed processes left halfway, a day ago or earlier: younger files may still be written to."""
    with suppress(OSError):
        for each in folder.glob(f"*{_PART}"):
            with suppress(OSError):
                if time.time() - each.stat().st_mtime > _STALE_SECONDS:
                    each.unlink()
