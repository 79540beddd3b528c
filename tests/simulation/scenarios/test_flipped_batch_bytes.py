"""RFC 0002 section 1: the bytes that a Kafka batch's own checksum leaves out are covered by ours (counterexample 17)."""

import crc32c
import pytest

import storage.entry
from storage.entry import HEADER_BYTES
from storage.errors import StorageError
from tests.simulation.scenarios.log_story import DIRECTORY, LogStory, data, plain

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc; the batch's own checksum begins behind them.
_OUTSIDE_ITS_CHECKSUM = 21


def _each_of_these_bytes_rots() -> None:
    for byte in range(_OUTSIDE_ITS_CHECKSUM):
        with LogStory(byte) as story:
            log = story.open()
            written = story.append(log, data(log, 3))
            story.run(log.flush())
            [name] = [each for each in story.machine.environment.files.listdir(DIRECTORY) if each.endswith(".log")]
            story.disk.rot(f"{DIRECTORY}/{name}", written[0].size + HEADER_BYTES + byte, bit=byte % 8)
            try:
                found = story.entries(log)
            except StorageError:
                continue
            assert plain(found) == plain(written), f"a flip in byte {byte} of a batch was served"


def test_a_flip_that_a_batch_cannot_notice_is_noticed() -> None:
    _each_of_these_bytes_rots()


class _HeadersOnly:
    """Checksums that are not continued over the first bytes of the payload."""

    @staticmethod
    def crc32c(content, crc: int = 0) -> int:
        return crc or crc32c.crc32c(content)


def test_a_flipped_batch_is_served_if_only_its_own_checksum_protects_it(monkeypatch) -> None:
    monkeypatch.setattr(storage.entry, "crc32c", _HeadersOnly)
    with pytest.raises(AssertionError, match="was served"):
        _each_of_these_bytes_rots()
