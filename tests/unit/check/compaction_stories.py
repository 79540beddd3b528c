"""Each anomaly of compacted partitions in its smallest history, and beside it the closest one that is legal."""

from stories import Story

KEPT = 8  # ms; each line of a story takes 2


def table(kept: int = KEPT) -> Story:
    return Story().add("compact", tp="t-0", delete_retention_ms=kept)


def put(story: Story, val: str, off: int | None, key: str = "k", **fields) -> Story:
    return story.send(val, off, key=key, **fields)


def delete(story: Story, val: str, off: int | None, key: str = "k", **fields) -> Story:
    return story.send(val, off, key=key, tombstone=True, **fields)


def again(story: Story) -> Story:
    return story.add("seek", proc=1, tp="t-0", off=0)


def wait(story: Story, times: int = 6) -> Story:
    """Let time go by, so that a tombstone is old."""
    for _ in range(times):
        story.span()
    return story


def two(key: str = "k") -> Story:
    """A record of a key at offset 0, and one of another or of the same key at offset 1."""
    return put(put(table(), "a", 0), "b", 1, key=key)


def deleted() -> Story:
    """A value at offset 0, its tombstone at offset 1, a record of another key at offset 2."""
    return put(delete(put(table(), "a", 0), "d", 1), "z", 2, key="other")


A, B, D, Z = (0, "a"), (1, "b"), (1, "d"), (2, "z")

# (anomaly, history that shows it, the closest legal one)
COMPACTION_PAIRS = [
    # Only a later record of its key excuses a missing one.
    ("lost-write", two("other").final(B), two("k").final(B)),
    ("lost-write", put(two("other"), "c", 2).final((2, "c")), put(two(), "c", 2).final((2, "c"))),
    ("unseen", two("k").final(A), two("k").final(A, B)),
    ("lost-read", two("other").poll(A, B).final(B), two("k").poll(A, B).final(B)),
    # One that is later in time, but not in the log, excuses nothing.
    (
        "unseen",
        put(put(table(), "b", 1, inv=1, ret=40), "a", 2, inv=2, ret=30).final(B),
        put(put(table(), "b", 1, inv=1, ret=40), "a", 2, inv=2, ret=30).final((2, "a")),
    ),
    # One that nobody was answered about would be there itself, unless it is a tombstone that is old.
    (
        "unseen",
        put(put(table(), "a", 0), "b", None, type="info").final(),
        wait(delete(put(table(), "a", 0), "d", None, type="info")).final(),
    ),
    (
        "unseen",
        delete(put(table(), "a", 0), "d", None, type="info").final(),
        put(put(table(), "a", 0), "b", None, type="info").final(B),
    ),
    # One that was refused is no later record.
    ("unseen", put(put(table(), "a", 0), "b", None, type="fail").final(), put(table(), "a", 0).final(A)),
    # A tombstone stays until it is old.
    ("lost-write", deleted().final(Z), wait(deleted()).final(Z)),
    # A reader misses what has a later record, and that record had begun before its poll ended.
    ("poll-skip", put(two("other").poll(A), "c", 2).poll((2, "c")).final(A, B, (2, "c")), two("k").poll(B).final(B)),
    (
        "int-poll-skip",
        put(put(two("other"), "c", 2).poll(A, (2, "c")), "e", 3, key="other").final(A, (2, "c"), (3, "e")),
        put(put(put(two("other"), "c", 2, key="c"), "e", 3, key="other").poll(A, (2, "c")), "f", 4).final(
            (2, "c"), (3, "e"), (4, "f")
        ),
    ),
    (
        "int-poll-skip",
        again(deleted()).poll(A, Z).final(D, Z),
        wait(again(deleted())).poll((2, "z")).final(Z),
    ),
    (
        "poll-skip",
        put(again(two("other")).poll(B), "c", 2).final(B, (2, "c")),
        put(again(two("other")).poll(A, B), "c", 2).final(B, (2, "c")),
    ),
    # No deleted key returns.
    (
        "resurrected-key",
        again(again(wait(deleted())).poll(Z)).poll(A, Z).final(Z),
        again(again(wait(deleted())).poll(A, D, Z)).poll(Z).final(Z),
    ),
    (
        "resurrected-key",
        again(
            wait(put(delete(put(put(table(), "y", 0, key="y"), "a", 1), "d", 2), "z", 3, key="z")).poll(
                (0, "y"), (3, "z")
            )
        )
        .poll((0, "y"), (1, "a"))
        .final((0, "y"), (3, "z")),
        # With a later value the tombstone is no more than a replaced record, and replicas differ in what they removed.
        again(
            wait(put(put(delete(put(put(table(), "y", 0, key="y"), "a", 1), "d", 2), "z", 3, key="z"), "e", 4)).poll(
                (0, "y"), (3, "z")
            )
        )
        .poll((0, "y"), (1, "a"), (2, "d"), (3, "z"))
        .final((0, "y"), (3, "z"), (4, "e")),
    ),
    (
        "resurrected-key",
        wait(deleted()).final(A, Z),
        # It became old while the final reader was on its way.
        wait(wait(deleted()).final(A)).final(Z),
    ),
]
