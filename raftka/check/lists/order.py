"""Who depends on whom, and in a circle.

Kinds of edges between committed transactions (Adya's): *wr* from who appended a value to who read it; *ww* from who
appended a value to who appended the next one of the key; *rw* from who read up to a value to who appended the next one.

A circle of wr edges alone breaks read_committed. Kafka allows the others: transactions append to partitions side by
side, and nothing isolates what they write from each other, nor what they read from what is written later. Those are
counted.
"""

from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise

from raftka.check.lists.index import ListIndex
from raftka.check.lists.reads import Case, add
from raftka.check.transactions.cycles import components, shortest_cycle
from raftka.check.verdict import Report

# For each edge the key and the value that shows it.
Edges = dict[tuple[int, int], tuple[str, str]]


def check_order(index: ListIndex, report: Report) -> None:
    """Report circular-read; count write-cycle, write-read-cycle and anti-dependency-cycle."""
    wr, ww, rw = read_edges(index), write_edges(index), anti_edges(index)
    cases = [_case(index, wr, shortest_cycle(following(wr), each)) for each in components(following(wr))]
    add(report, "circular-read", cases)
    known = [set(each) for each in components(following(wr))]
    for name, edges in (
        ("write-cycle", ww),
        ("write-read-cycle", wr | ww),
        ("anti-dependency-cycle", wr | ww | rw),
    ):
        found = [set(each) for each in components(following(edges))]
        new = [each for each in found if not any(smaller <= each for smaller in known)]
        add(report, name, [], allowed=len(new))
        known += new


def following(edges: Edges) -> dict[int, list[int]]:
    """Return for each transaction those that depend on it."""
    found: dict[int, list[int]] = defaultdict(list)
    for one, two in edges:
        found[one].append(two)
    return dict(found)


def read_edges(index: ListIndex) -> Edges:
    """Return the wr edges."""
    edges: Edges = {}
    for row, each in enumerate(index.rows):
        if not index.is_committed(row):
            continue
        for read in each.reads:
            for _, val in read.recs:
                writer = index.writer.get((read.key, val))
                # What it reads of its own is a precommitted-read.
                if writer is not None and writer != row and index.is_committed(writer):
                    edges.setdefault((writer, row), (read.key, val))
    return edges


def write_edges(index: ListIndex) -> Edges:
    """Return the ww edges, by the order of offsets."""
    edges: Edges = {}
    for key, its in index.due.items():
        for one, two in pairwise(its):
            first, second = index.writer[key, one.val], index.writer[key, two.val]
            if first != second:
                edges.setdefault((first, second), (key, two.val))
    return edges


def anti_edges(index: ListIndex) -> Edges:
    """Return the rw edges. A read that returned nothing shows no place, and so makes none."""
    edges: Edges = {}
    for row, each in enumerate(index.rows):
        if not index.is_committed(row):
            continue
        for read in each.reads:
            its = index.due.get(read.key, [])
            last = max((off for off, _ in read.recs), default=None)
            if last is None:
                continue
            at = bisect_right(its, last, key=lambda each: each.off)
            if at < len(its) and index.writer[read.key, its[at].val] != row:
                edges.setdefault((row, index.writer[read.key, its[at].val]), (read.key, its[at].val))
    return edges


def _case(index: ListIndex, edges: Edges, cycle: list[int]) -> Case:
    steps, lines = [], []
    for one, two in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
        key, val = edges[one, two]
        steps.append(f"the one at {index.name(two)} has read {val!r} of the one at {index.name(one)}")
        before = edges[cycle[cycle.index(one) - 1], one]
        lines.append(index.shown(one, (key, val), before))
    text = "each of these transactions had to be committed before it was: " + ", ".join(steps)
    return Case((min(index.rows[row].line for row in cycle),), edges[cycle[0], cycle[1]][0], text, lines)
