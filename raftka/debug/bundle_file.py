"""The zip of a bundle: parts, and `manifest.json` as the last one.

It is written under a temporary name beside its own, fsynced and linked to its name: a file of that name is whole, and
none is ever replaced. All parts together have at most 100 MiB before they are compressed.
"""

import contextlib
import hashlib
import json
import os
import time
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from raftka.debug.errors import BundleError
from raftka.debug.secret_mask import SecretMask
from raftka.error_text import short_reason_of
from raftka.version import installed_version

MANIFEST_NAME = "manifest.json"
FORMAT_VERSION = 1
BUNDLE_BYTES_MAX = 100 * 1024 * 1024
PART_BYTES_MAX = 16 * 1024 * 1024
# Kept for the manifest and for what a zip needs of its own.
_RESERVED_BYTES = 4 * 1024 * 1024
_PARTS_MAX = 4096


class BundleFile:
    """One bundle that is being written. A context manager: without `finish` nothing stays.

    Attributes:
        parts: What the manifest says of each part.
    """

    def __init__(self, path: Path, mask: SecretMask, bytes_max: int = BUNDLE_BYTES_MAX) -> None:
        self._path = path
        self._temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
        self._mask = mask
        self._left = bytes_max - _RESERVED_BYTES
        self._made_at = time.gmtime()
        self._is_ours = False
        self._stream: BinaryIO | None = None
        self._zip: zipfile.ZipFile | None = None
        self.parts: list[dict[str, Any]] = []

    def __enter__(self) -> "BundleFile":
        """Open the temporary file.

        Raises:
            BundleError: The name is taken, or nothing can be written there.
        """
        if os.path.lexists(self._path):
            raise BundleError(f"{self._path} exists already; name another file with --out")
        try:
            self._open()
        except BaseException:
            # Also Ctrl-C: without a return from here nobody calls `__exit__`.
            self._discard()
            raise
        return self

    def _open(self) -> None:
        self._is_ours = True
        try:
            descriptor = os.open(self._temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._is_ours = False
            raise self._cannot_write(error) from error
        self._stream = os.fdopen(descriptor, "w+b")
        self._zip = zipfile.ZipFile(self._stream, "w", zipfile.ZIP_DEFLATED)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files, and remove the temporary one."""
        self._discard()

    def _discard(self) -> None:
        for each in (self._zip, self._stream):
            # A disk that is full refuses the end of the zip, too.
            with contextlib.suppress(OSError, ValueError):
                if each is not None:
                    each.close()
        if self._is_ours:
            with contextlib.suppress(OSError):
                self._temporary.unlink()

    @property
    def room(self) -> int:
        """How many bytes the next part may have."""
        return max(0, min(PART_BYTES_MAX, self._left))

    def add_json(self, name: str, value: Any, **more: Any) -> None:
        """Add a JSON value as a part; raises what `add_text` raises."""
        try:
            masked = self._mask.in_json(value)
            content = _json_bytes(masked, 1)
            if len(content) > self.room:
                content = _json_bytes(masked, None)
        except RecursionError:
            self.miss(name, "lists or objects in it are nested too deeply")
            return
        self._add(name, content, None, more)

    def add_text(self, name: str, content: bytes, *, cut: str | None = None, **more: Any) -> None:
        """Add a text as a part; `cut` says what was left out of it, `more` goes into the manifest.

        Raises:
            BundleError: It cannot be written.
        """
        self._add(name, self._mask.in_text(content), cut, more)

    def miss(self, name: str, reason: str) -> None:
        """Say that there is no such part, and why."""
        if len(self.parts) < _PARTS_MAX:
            self.parts.append({"file": name, "missing": reason})

    def _add(self, name: str, content: bytes, cut: str | None, more: dict[str, Any]) -> None:
        assert self._zip is not None
        if len(content) > self.room or len(self.parts) >= _PARTS_MAX:
            self.miss(name, f"{len(content)} bytes are too many: this bundle has room for {self.room} more in a part")
            return
        try:
            self._zip.writestr(self._info(name), content)
        except OSError as error:
            raise self._cannot_write(error) from error
        self._left -= len(content)
        row = {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        self.parts.append(row | more | ({} if cut is None else {"cut": cut}))

    def finish(self, about: dict[str, Any]) -> int:
        """Add the manifest, make the file durable and give it its name; return its bytes.

        Raises:
            BundleError: It cannot be written, or the name was taken meanwhile.
        """
        assert self._zip is not None
        assert self._stream is not None
        manifest = {
            "format": FORMAT_VERSION,
            "raftka": installed_version(),
            "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", self._made_at),
            **about,
            "parts": self.parts,
        }
        try:
            self._zip.writestr(self._info(MANIFEST_NAME), _json_bytes(self._mask.in_json(manifest), 1))
            self._zip.close()
            self._stream.flush()
            os.fsync(self._stream.fileno())
            size = os.fstat(self._stream.fileno()).st_size
            self._take_name()
        except FileExistsError:
            raise BundleError(f"{self._path} exists by now; name another file with --out") from None
        except OSError as error:
            raise self._cannot_write(error) from error
        return size

    def _take_name(self) -> None:
        try:
            # Not a rename: that would replace a file that was made meanwhile.
            os.link(self._temporary, self._path)
        except FileExistsError:
            raise
        except OSError:
            # A file system without hard links.
            if os.path.lexists(self._path):
                raise FileExistsError(self._path) from None
            self._temporary.rename(self._path)
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _info(self, name: str) -> zipfile.ZipInfo:
        # A zip has no earlier dates.
        info = zipfile.ZipInfo(name, max(self._made_at[:6], (1980, 1, 1, 0, 0, 0)))
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o600 << 16
        return info

    def _cannot_write(self, error: OSError) -> BundleError:
        return BundleError(f"cannot write {self._path}: {short_reason_of(error)}")


def _json_bytes(value: Any, indent: int | None) -> bytes:
    content = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    return content.encode(errors="backslashreplace") + b"\n"
