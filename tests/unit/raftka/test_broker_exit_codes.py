"""With which code a broker ends that did not start: 78 where the same start would be refused again."""

import pytest

from cluster.errors import PermanentStartupError, RefusedDirectoryError, StartupError
from raftka.broker.exit_codes import CONFIGURATION, FAILED, exit_code_of
from raftka.cli import exit_codes
from storage.errors import (
    CorruptLogError,
    DiskFullError,
    ForeignDirectoryError,
    ForeignSegmentError,
    KvStoreError,
    MismatchedLogError,
)


@pytest.mark.parametrize(
    "kind",
    [PermanentStartupError, RefusedDirectoryError, ForeignDirectoryError, ForeignSegmentError, MismatchedLogError],
)
def test_what_a_person_must_change_is_78(kind: type[Exception]) -> None:
    assert exit_code_of(kind("so")) == CONFIGURATION == 78


@pytest.mark.parametrize("kind", [StartupError, OSError, KvStoreError, CorruptLogError, DiskFullError, ValueError])
def test_what_may_go_away_is_1(kind: type[Exception]) -> None:
    assert exit_code_of(kind("so")) == FAILED == 1


def test_the_command_line_passes_the_same_code_on() -> None:
    assert exit_codes.CONFIGURATION == CONFIGURATION
    assert exit_codes.ConfigurationError.exit_code == CONFIGURATION
