"""Bugs of responses that leave straight from segment files (RFC 0002 section 14)."""

import pytest

import storage.file_range
from runtime.open_files import FileGoneError
from storage.verified_ranges import VerifiedRanges


def verified_ranges_survive_truncations(patch: pytest.MonkeyPatch) -> None:
    """What was found whole before a truncation is sent from where it lay."""
    patch.setattr(VerifiedRanges, "_forget_old", lambda _: None)


def a_removed_segment_is_sent_as_zeros(patch: pytest.MonkeyPatch) -> None:
    """A response whose segment was removed while it was sent is filled up to the size that was told."""
    send = storage.file_range._send

    def fill_up(ranges, skip, socket):
        try:
            return send(ranges, skip, socket)
        except FileGoneError:
            return 0, bytes(sum(map(len, ranges)) - skip)

    patch.setattr(storage.file_range, "_send", fill_up)
