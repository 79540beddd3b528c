"""Checks of what users write into generated files. What passes needs no quotes in a unit, a Containerfile or YAML."""

import re

# No space, quote, backslash, % or $: systemd, shells and YAML give them a meaning.
_PATH = re.compile(r"/[A-Za-z0-9._+@:,=/-]*")
# What useradd accepts on Debian and Fedora.
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
# RFC 1123.
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LABEL_CHARACTERS_MAX = 63
_DOMAIN_CHARACTERS_MAX = 200
# A Service's name: RFC 1035 has no digit at the beginning.
_SERVICE = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
# A reference to an image: a registry with a port, a path, and a tag or a digest. Digits are a port before a slash only.
_IMAGE = re.compile(
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]{1,5}(?=/))?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_QUANTITY = re.compile(r"[1-9][0-9]{0,8}(Mi|Gi|Ti)")
_CPU = re.compile(r"[1-9][0-9]{0,3}|[1-9][0-9]{0,5}m")
_UNITS = {"Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4}


def checked_path(text: str) -> str:
    """Return an absolute path without a slash at its end.

    Raises:
        ValueError: Another path, or one with characters that would need quotes.
    """
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is not an absolute path")
    if not _PATH.fullmatch(text):
        raise ValueError(f"{text!r}: only letters, digits and . _ + @ : , = - may stand in the path")
    parts = text.rstrip("/").split("/")[1:]
    if not parts or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{text!r}: write the path without //, . and .., and not as / alone")
    return "/" + "/".join(parts)


def checked_user(text: str) -> str:
    """Return the name of a user other than root.

    Raises:
        ValueError: Not such a name.
    """
    if not _USER.fullmatch(text):
        raise ValueError(f"{text!r} is no name of a user: small letters, digits, - and _, at most 32")
    if text == "root":
        raise ValueError("a broker does not need root: name a user of its own")
    return text


def checked_label(text: str, characters_max: int = _LABEL_CHARACTERS_MAX) -> str:
    """Return a label of DNS (RFC 1123), as Kubernetes names things.

    Raises:
        ValueError: Not such a label.
    """
    if not _LABEL.fullmatch(text) or len(text) > characters_max:
        raise ValueError(
            f"{text!r} is no label of DNS: small letters, digits and - between them, at most {characters_max}"
        )
    return text


def checked_service(text: str, characters_max: int = _LABEL_CHARACTERS_MAX) -> str:
    """Return a label of DNS that begins with a letter (RFC 1035), as the name of a Service must.

    Raises:
        ValueError: Not such a label.
    """
    checked_label(text, characters_max)
    if not _SERVICE.fullmatch(text):
        raise ValueError(f"{text!r} cannot name a Service: it must begin with a small letter (RFC 1035)")
    return text


def checked_domain(text: str) -> str:
    """Return a name of DNS, labels with dots between them.

    Raises:
        ValueError: Not such a name.
    """
    if len(text) > _DOMAIN_CHARACTERS_MAX or not all(_LABEL.fullmatch(label) for label in text.split(".")):
        raise ValueError(f"{text!r} is no name of DNS: labels of small letters, digits and -, with dots between them")
    return text


def checked_image(text: str) -> str:
    """Return a reference to an image, NAME:TAG or NAME@sha256:DIGEST.

    Raises:
        ValueError: Not such a reference, or one without tag and digest: it would name another image every day.
    """
    if not (found := _IMAGE.fullmatch(text)):
        raise ValueError(f"{text!r} is no reference to an image, such as registry.example.com/raftka:0.1.0")
    if text.endswith(":latest") or (found[5] is None and found[6] is None):
        raise ValueError(f"{text!r}: name a version, as in raftka:0.1.0; `latest` changes under a running cluster")
    return text


def checked_quantity(text: str) -> str:
    """Return a number of bytes as Kubernetes writes it, in Mi, Gi or Ti.

    Raises:
        ValueError: Not such a number.
    """
    if not _QUANTITY.fullmatch(text):
        raise ValueError(f"{text!r} is no size, such as 512Mi or 100Gi")
    return text


def quantity_bytes(quantity: str) -> int:
    """Return the bytes of a quantity that `checked_quantity` has returned."""
    return int(quantity[:-2]) * _UNITS[quantity[-2:]]


def checked_cpu(text: str) -> str:
    """Return a number of CPUs as Kubernetes writes it: 2, or 500m for half of one.

    Raises:
        ValueError: Not such a number.
    """
    if not _CPU.fullmatch(text):
        raise ValueError(f"{text!r} is no number of CPUs, such as 2 or 500m")
    return text
