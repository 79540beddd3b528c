"""Small transactional histories: each anomaly in its smallest one, and beside it the closest one that is legal."""

from typing import Any

from stories import MS, Story

A, B, C, X, Y = (0, "a"), (1, "b"), (2, "c"), (0, "x"), (1, "y")
COMMITTED = "read_committed"


class Told(Story):
    """A history with transactions; `read` and `final` are at read_committed."""

    def end(self, txn: str, do: str, **fields: Any) -> "Told":
        self.add("txn", **({"type": "ok", "proc": 5000 + len(self.lines), "txn": txn, "do": do} | fields))
        return self

    def begin(self, txn: str, **fields: Any) -> "Told":
        return self.end(txn, "begin", **fields)

    def commit(self, txn: str, **fields: Any) -> "Told":
        return self.end(txn, "commit", **fields)

    def abort(self, txn: str, **fields: Any) -> "Told":
        return self.end(txn, "abort", **fields)

    def send(self, val: str, off: int | None = None, **fields: Any) -> "Told":
        super().send(val, off, **({"idem": True} | fields))
        return self

    def read(self, *recs: tuple[int, str], **fields: Any) -> "Told":
        self.poll(*recs, **({"iso": COMMITTED} | fields))
        return self

    def final(self, *recs: tuple[int, str], **fields: Any) -> "Told":
        super().final(*recs, **({"iso": COMMITTED} | fields))
        return self


def one(**fields: Any) -> Told:
    """One record in a transaction."""
    return Told().begin("T").send("a", 0, txn="T", **fields)


def two(tp: str = "t-0", off: int = 1) -> Told:
    """Two records in a transaction."""
    return one().send("b", off, txn="T", tp=tp)


def amid(outcome: str) -> Told:
    """A record in a transaction between two that are in none."""
    told = Told().send("a", 0).begin("T").send("b", 1, txn="T").send("c", 2)
    return told.commit("T", type="info") if outcome == "unsure" else told.end("T", outcome)


def circle(other: str = "t-0") -> Told:
    """Two transactions, each of which is made of the other's record."""
    told = Told().begin("T").begin("U").send("a", 0, txn="T", of=["t-1", 0])
    told.send("b", 0, tp="t-1", txn="U", of=[other, 0]).commit("T").commit("U")
    return told.final(A).final((0, "b"), tp="t-1").final(tp="t-2")


def polled_circle(by: str = "U") -> Told:
    """Two transactions, each of which has polled the other's record, in polls that lasted long."""
    told = Told().begin("T").begin("U").send("a", 0, txn="T").send("b", 0, tp="t-1", txn="U")
    inv = told.now + 1
    told.commit("T").commit("U")
    told.read((0, "b"), tp="t-1", txn="T", proc=8, inv=inv * MS, ret=99 * MS)
    told.read(A, txn=by, proc=9, inv=inv * MS, ret=99 * MS)
    told.now = 99
    return told.final(A).final((0, "b"), tp="t-1")


def worked(*offsets: int) -> Told:
    """Two inputs x and y; each of the offsets is worked off by a transaction of its own."""
    told = Told().send("x", 0, tp="in-0").send("y", 1, tp="in-0")
    for number, offset in enumerate(offsets):
        told.begin(f"T{number}").send(f"o{number}", number, txn=f"T{number}", of=["in-0", offset]).commit(f"T{number}")
    return told.final(*((number, f"o{number}") for number in range(len(offsets)))).final(X, Y, tp="in-0")


def tried(first: str) -> Told:
    """Input 0 is worked off by a transaction that ends as told; input 1 by one that is committed."""
    told = Told().send("x", 0, tp="in-0").send("y", 1, tp="in-0")
    told.begin("T").send("o", 0, txn="T", of=["in-0", 0]).end("T", first)
    told.begin("U").send("p", 2, txn="U", of=["in-0", 1]).commit("U")
    outputs = [(0, "o"), (2, "p")] if first == "commit" else [(2, "p")]
    return told.final(*outputs).final(X, Y, tp="in-0")


def committed_offset(offset: int) -> Told:
    """Input 0 is worked off, and its transaction commits an offset."""
    told = Told().send("x", 0, tp="in-0").send("y", 1, tp="in-0")
    told.begin("T").send("o", 0, txn="T", of=["in-0", 0], group="g").commit("T", offsets={"in-0": offset}, group="g")
    return told.final((0, "o")).final(X, Y, tp="in-0")


def taken(fault: str, **read: Any) -> Told:
    """Power took a record of acks=1 that was read; what its offset has since is a marker."""
    told = Told().send("a", 0).send("b", 1, acks="1").poll(A, B).fault(fault)
    told.begin("T").send("c", 2, txn="T").commit("T")
    return told.poll(A, C, proc=7, **read).final(A, C)


# (what is found and nothing else, history that shows it, the closest legal one)
LOG_PAIRS: list[tuple[set[str], Told, Told]] = [
    ({"aborted-read"}, one().abort("T").read(A).final(), one().abort("T").poll(A).final()),
    ({"aborted-read"}, one().commit("T", type="fail").read(A).final(), one().commit("T", type="info").read(A).final(A)),
    (
        {"aborted-read"},
        one().commit("T", type="info").abort("T").read(A).final(),
        one().commit("T", type="info").abort("T", type="info").read(A).final(A),
    ),
    ({"precommitted-read"}, one().read(A).commit("T").final(A), one().commit("T").read(A).final(A)),
    (
        {"precommitted-read"},
        one().read(A, inv=5 * MS, ret=6 * MS).commit("T", inv=7 * MS, ret=8 * MS).final(A, inv=9 * MS, ret=9 * MS),
        one().read(A, inv=5 * MS, ret=7 * MS).commit("T", inv=7 * MS, ret=8 * MS).final(A, inv=9 * MS, ret=9 * MS),
    ),
    ({"precommitted-read"}, one().read(A).final(A), one().final()),
    ({"torn-read", "unseen"}, two().commit("T").final(A), two().commit("T").final(A, B)),
    (
        {"torn-read", "unseen"},
        two().commit("T", type="info").read(A).final(A),
        two().commit("T", type="info").read(A).final(A, B),
    ),
    (
        {"torn-read", "unseen"},
        two().commit("T", type="info").final(A),
        # All of it or nothing of it: nobody knows how it ended.
        two().commit("T", type="info").final(),
    ),
    (
        {"torn-read", "unseen"},
        two("t-1", 0).commit("T").final(A).final(tp="t-1"),
        # The marker of one partition may come long before that of the other.
        two("t-1", 0).commit("T").read(A).read(tp="t-1").final(A).final((0, "b"), tp="t-1"),
    ),
    (
        {"torn-read", "int-poll-skip"},
        two().send("c", 2).commit("T").read(A, C).final(A, B, C),
        two().send("c", 2).commit("T").read(A, B, C).final(A, B, C),
    ),
    (
        {"torn-read", "poll-skip"},
        two().send("c", 2).commit("T").read(A).read(C).final(A, B, C),
        two().send("c", 2).commit("T").read(A).read(B).read(C).final(A, B, C),
    ),
    (
        {"torn-read", "int-poll-skip"},
        amid("unsure").read(A, B, C).read(A, C, proc=7).final(A, B, C),
        amid("unsure").read(A, B, C).read(A, B, C, proc=7).final(A, B, C),
    ),
    (
        {"lost-read", "torn-read", "int-poll-skip"},
        amid("unsure").read(A, B, C).final(A, C),
        # Who reads everything has seen it before it was decided.
        amid("unsure").poll(A, B, C).final(A, C),
    ),
    (
        {"int-poll-skip", "lost-write"},
        amid("commit").read(A, C).final(A, C),
        amid("abort").poll(A, B, C).read(A, C, proc=7).final(A, C),
    ),
    (
        {"poll-skip"},
        amid("commit").add("seek", proc=1, tp="t-0", off=1).read(C).final(A, B, C),
        amid("abort").poll(A, B, C).add("seek", proc=1, tp="t-0", off=1).read(C).final(A, C),
    ),
    (
        {"int-poll-skip"},
        # At read_uncommitted nothing is hidden.
        amid("abort").poll(A, B, C).poll(A, C, proc=7).final(A, C),
        amid("abort").poll(A, B, C).poll(A, B, C, proc=7).final(A, C),
    ),
    ({"int-poll-skip", "lost-read"}, taken("nemesis kill"), taken("power loss")),
    ({"int-poll-skip", "lost-read"}, taken("nemesis kill", iso=COMMITTED), taken("power loss", iso=COMMITTED)),
    ({"circular-read"}, circle(), circle("t-2")),
    ({"circular-read"}, polled_circle(), polled_circle("V")),
    ({"doubled-input"}, worked(0, 1, 1), worked(0, 1)),
    ({"lost-input"}, tried("abort"), tried("commit")),
    ({"lost-input"}, committed_offset(2), committed_offset(1)),
    (
        {"nonmonotonic-lso"},
        two().commit("T").read(A, lso=3).read(B, lso=2).final(A, B),
        two().commit("T").read(A, lso=3).read(B, lso=3).final(A, B),
    ),
    (
        {"nonmonotonic-lso"},
        two().commit("T").read(A, lso=3, epoch=4).read(B, lso=2, epoch=4).final(A, B),
        # Somebody else may answer who asks for an older epoch.
        two().commit("T").read(A, lso=3, epoch=4).read(B, lso=2, epoch=3).final(A, B),
    ),
    (
        {"read-beyond-lso"},
        two().commit("T").read(A, B, lso=1).final(A, B),
        two().commit("T").poll(A, B, lso=1).final(A, B),
    ),
]
