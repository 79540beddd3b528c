"""What fuzzing, or writing its targets, has found, and the tests that keep it repaired."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One class of wrong answers.

    Attributes:
        target: Which function of `targets` meets it.
        what: The input.
        was: What came of it before.
        test: The test that feeds it now.
        by: How it came to light: the search itself, or measuring and reading while its target was written.
    """

    target: str
    what: str
    was: str
    test: str
    by: str


FINDINGS = (
    Finding(
        "history",
        "a line that is not UTF-8, in the middle of a history",
        "`raftka check` ended with a UnicodeDecodeError instead of exit code 2",
        "test_a_line_that_is_not_utf8_is_named",
        "the search",
    ),
    Finding(
        "history",
        "a register's value of a thousand nested brackets",
        "RecursionError instead of exit code 2",
        "test_a_value_that_is_nested_too_deep_is_named",
        "reading",
    ),
    Finding(
        "compressed",
        "three bytes that no gzip, lz4 or zstd begins with",
        "256 MiB allocated and zeroed before they were refused",
        "test_a_few_bytes_of_garbage_take_no_more_memory_than_they_can_stand_for",
        "measuring",
    ),
    Finding(
        "compressed",
        "five bytes of snappy that announce 256 MiB",
        "taken at their word: a buffer of 256 MiB was asked for before they were refused",
        "test_a_snappy_block_cannot_announce_more_than_it_can_hold",
        "reading",
    ),
    Finding(
        "log_directory",
        "a closed segment that its index file vouches for, with damage in it, before one that is cut or set aside",
        "trusted by this start, without the index file, and cut by the next one as if it had never been fsynced",
        "test_a_closed_segment_is_read_before_it_is_the_active_one_again",
        "the search",
    ),
    Finding(
        "admin_number",
        "a partition or a target of 4,301 digits",
        "ValueError, HTTP 500 and a traceback in the log instead of 404 or 400",
        "test_a_number_that_no_partition_and_no_node_can_have_is_none",
        "reading",
    ),
)
