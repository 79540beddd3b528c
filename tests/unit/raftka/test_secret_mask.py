"""Secrets and their paths are hidden in what goes into a bundle, and little else is."""

import base64
import json
import os
from pathlib import Path

import pytest

from raftka.config_options import OPTIONS
from raftka.debug.secret_mask import HIDDEN, SecretMask

SECRET = b"\x00\xff a secret \n of 32 random bytes"


@pytest.fixture
def learned(tmp_path: Path) -> SecretMask:
    path = tmp_path / "hidden-place"
    path.write_bytes(SECRET)
    mask = SecretMask()
    mask.learn(str(path))
    return mask


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        SECRET.hex().encode(),
        SECRET.hex().upper().encode(),
        repr(SECRET).encode(),
        base64.b64encode(SECRET).rstrip(b"=")[:-1],
        base64.urlsafe_b64encode(SECRET).rstrip(b"=")[:-1],
    ],
)
def test_what_a_secret_file_holds_is_hidden_in_each_of_its_forms(learned: SecretMask, form: bytes) -> None:
    shown = learned.in_text(b"before " + form + b" behind")
    assert form not in shown
    assert HIDDEN.encode() in shown
    assert shown.startswith(b"before ")
    assert shown.endswith(b" behind")


def test_the_path_of_a_secret_is_hidden_wherever_it_occurs(learned: SecretMask, tmp_path: Path) -> None:
    path = f"{tmp_path}/hidden-place"
    assert learned.in_text(f"cannot open {path}: no".encode()) == f"cannot open {HIDDEN}: no".encode()
    assert learned.in_json({"words": [f"in {path}"]}) == {"words": [f"in {HIDDEN}"]}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cluster.secret.file: /etc/x has mode 0644", "cluster.secret.file: (hidden) has mode 0644"),
        ("admin.token = abc123", "admin.token = (hidden)"),
        ('"sasl.password": "a b c", "x": 1', '"sasl.password": "(hidden)", "x": 1'),
        ('{"message": "token=abc", "x": "a token: b"}', '{"message": "token=(hidden)", "x": "a token: (hidden)"}'),
        ("Authorization: Bearer abc.def-1", "Authorization: Bearer (hidden)"),
        ("[Errno 2] No such file: '/etc/raftka/secret'", "[Errno 2] No such file: '(hidden)'"),
        ("open /run/secrets/raftka/a now", "open (hidden) now"),
        # No secrets.
        ("[orders-0 n2 t1 L] elected by nodes [2, 3]", "[orders-0 n2 t1 L] elected by nodes [2, 3]"),
        ('raftka_size_bytes{topic="secrets"} 5', 'raftka_size_bytes{topic="secrets"} 5'),
        ("data.dir = /var/lib/raftka", "data.dir = /var/lib/raftka"),
    ],
)
def test_text_that_looks_like_a_secret_is_hidden_and_other_text_is_not(text: str, shown: str) -> None:
    assert SecretMask().in_text(text.encode()).decode() == shown


def test_json_stays_json_and_keeps_what_is_no_secret() -> None:
    value = {
        "rows": [{"key": "cluster.secret.file", "value": "/x", "source": "broker"}, {"key": "node.id", "value": "1"}],
        "admin.token.file": "/y",
        "tokens": 5,
        "none": None,
        "token": None,
        "lone": "\ud800",
    }
    shown = json.loads(json.dumps(SecretMask().in_json(value)))
    assert shown["rows"] == [
        {"key": "cluster.secret.file", "value": HIDDEN, "source": "broker"},
        {"key": "node.id", "value": "1"},
    ]
    assert (shown["admin.token.file"], shown["tokens"], shown["none"], shown["token"]) == (HIDDEN, 5, None, None)


def test_a_number_is_not_learned_as_a_secret() -> None:
    mask = SecretMask()
    mask.learn_options({"delegation.token.max.lifetime.ms": "604800000", "sasl.password": "hunter2hunter2"})
    assert mask.in_text(b"retention.ms 604800000 hunter2hunter2") == b"retention.ms 604800000 (hidden)"


def test_a_secret_that_cannot_be_read_costs_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe-of-nobody")
    mask = SecretMask()
    mask.learn(str(tmp_path / "pipe-of-nobody"))
    mask.learn(str(tmp_path / "not-there"))
    mask.learn("relative")
    assert mask.in_text(b"a word that is relative") == b"a word that is (hidden)"


def test_a_secret_option_of_the_broker_is_known_by_its_name() -> None:
    secret = [option.key for option in OPTIONS if SecretMask.is_secret(option.key)]
    assert "cluster.secret.file" in secret
    # Whoever adds an option with such a name looks here whether it is one.
    assert set(secret) <= {"cluster.secret.file", "admin.token.file"}


@pytest.mark.parametrize("unit", ["a", "/a", "secret", "token=", "Bearer "])
def test_a_long_line_is_searched_in_time_that_grows_with_its_length(unit: str) -> None:
    # With unbounded repetitions this takes hours.
    assert SecretMask().in_text((unit * 200_000).encode()[:200_000])
