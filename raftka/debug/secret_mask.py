"""Hides secrets and the paths of secrets in whatever goes into a bundle.

Known secrets are the values of options whose names say that they are secret, and what the files hold that such options
name. They are hidden wherever they occur, also in hex and base64. Besides, text is searched for what looks like one: a
value behind a name such as `token`, a Bearer token, a path with such a name.
"""

import base64
import os
import re
import stat
from typing import Any

HIDDEN = "(hidden)"

_NAMES = r"secret|token|passw(?:or)?d|passphrase|credential|private|keystore|truststore|jaas|api[_.-]?key"
_SECRET_KEY = re.compile(_NAMES, re.IGNORECASE)
# `cluster.secret.file = "/etc/raftka/secret"`, `cluster.secret.file: /etc/raftka/secret has mode 0644`.
# Repetitions have bounds: a line of a log may be long. What stands before the name stays as it is.
_ASSIGNED = re.compile(
    rf"""((?:{_NAMES})[\w.-]{{0,64}}["']?\s{{0,8}}[:=]\s{{0,8}})("[^"\n]*"|'[^'\n]*'|[^\s,;"']+)""", re.IGNORECASE
)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_PATH = re.compile(r"""/[^\s'",;:]{0,512}(?:secret|token|passw|credential)[^\s'",;]*""", re.IGNORECASE)

# What is shorter occurs by chance; a cluster secret has 16 bytes at least.
_SECRET_BYTES_MIN = 8
_FILE_BYTES_MAX = 64 * 1024


class SecretMask:
    """Learns secrets first, then hides them."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()

    @staticmethod
    def is_secret(key: str) -> bool:
        """Return whether an option of that name is secret, or names a file that is."""
        return _SECRET_KEY.search(key) is not None

    def learn(self, value: str) -> None:
        """Hide the value of a secret option from now on, and what the file holds that it may name."""
        content = value.encode(errors="surrogatepass")
        # A number occurs elsewhere: `delegation.token.max.lifetime.ms` of other brokers is one.
        if len(content) >= _SECRET_BYTES_MIN and not content.isdigit():
            self._add(content)
        if os.path.isabs(value):
            self._learn_file(value)

    def learn_options(self, options: dict[str, Any]) -> None:
        """Learn from the options of a configuration that are secret."""
        for key, value in options.items():
            if self.is_secret(key) and isinstance(value, str):
                self.learn(value)

    def _learn_file(self, path: str) -> None:
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                return  # Opening a pipe would wait for somebody to write into it.
            with open(path, "rb") as file:
                content = file.read(_FILE_BYTES_MAX)
        except OSError:
            return  # That of another machine or user: nothing here can hold what nobody here can read.
        for each in [content, content.strip(), *content.split()]:
            if len(each) >= _SECRET_BYTES_MIN:
                self._add(each)

    def _add(self, secret: bytes) -> None:
        encoded = base64.b64encode(secret), base64.urlsafe_b64encode(secret)
        self._known |= {secret, secret.hex().encode(), secret.hex().upper().encode(), repr(secret)[2:-1].encode()}
        # Without the last characters, which depend on what follows.
        self._known |= {each.rstrip(b"=")[:-1] for each in encoded}

    def in_text(self, content: bytes) -> bytes:
        """Return a text without secrets, as UTF-8."""
        text = self._without_known(content).decode(errors="replace")
        return self._without_known(self._without_likely(text).encode())

    def in_json(self, value: Any) -> Any:
        """Return a JSON value without secrets: a value whose key is secret, and secrets in any text."""
        if isinstance(value, str):
            return self.in_text(value.encode(errors="surrogatepass")).decode()
        if isinstance(value, list):
            return [self.in_json(each) for each in value]
        if not isinstance(value, dict):
            return value
        shown = {key: self._field(key, each) for key, each in value.items()}
        # An option as a pair: {"key": "cluster.secret.file", "value": ...}.
        if self.is_secret(str(value.get("key", ""))) and value.get("value"):
            shown["value"] = HIDDEN
        return shown

    def _field(self, key: str, value: Any) -> Any:
        return HIDDEN if value and isinstance(value, str) and self.is_secret(key) else self.in_json(value)

    def _without_known(self, content: bytes) -> bytes:
        for secret in sorted(self._known, key=len, reverse=True):
            content = content.replace(secret, HIDDEN.encode())
        return content

    @staticmethod
    def _without_likely(text: str) -> str:
        text = _BEARER.sub(rf"\1 {HIDDEN}", text)
        text = _PATH.sub(HIDDEN, text)
        return _ASSIGNED.sub(_hide_value, text)


def _hide_value(match: re.Match[str]) -> str:
    # Quotes stay: a line of a log may be JSON.
    quote = match[2][0] if match[2][0] in "\"'" else ""
    return f"{match[1]}{quote}{HIDDEN}{quote}"
