"""Cycles of a directed graph: its strongly connected components (Tarjan), and a short cycle of each."""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)

# A search from every node of a large component would take long. Its first nodes have short cycles, too.
_STARTS_MAX = 100


def components(edges: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Return the strongly connected components that have a cycle: of several nodes, or of one with an edge to itself.

    Their order, and that of their nodes, is that in which the nodes first appear in `edges`.

    Args:
        edges: For each node those that an edge leads to. A node without edges may be left out.
    """
    rank = {node: at for at, node in enumerate(_nodes(edges))}
    found = [sorted(each, key=rank.__getitem__) for each in _components(edges, rank)]
    return sorted(found, key=lambda each: rank[each[0]])


def shortest_cycle(edges: Mapping[Node, Sequence[Node]], component: Sequence[Node]) -> list[Node]:
    """Return the nodes of a cycle in a component that `components` has returned, each once, in order.

    It is the shortest of those that the first 100 nodes are on.
    """
    inside = set(component)
    best: list[Node] = []
    for start in component[:_STARTS_MAX]:
        path = _path_back(edges, inside, start, len(best) or len(inside) + 1)
        if path and (not best or len(path) < len(best)):
            best = path
    return best


def _nodes(edges: Mapping[Node, Sequence[Node]]) -> Iterable[Node]:
    return dict.fromkeys(node for begin, ends in edges.items() for node in (begin, *ends))


def _components(edges: Mapping[Node, Sequence[Node]], rank: Mapping[Node, int]) -> list[list[Node]]:
    """Tarjan's algorithm with a stack of its own: a history is deeper than Python's."""
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    open_nodes: dict[Node, None] = {}
    found = []
    for root in rank:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        open_nodes[root] = None
        work = [(root, iter(edges.get(root, ())))]
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == number[node]:
                    closed = _closed(open_nodes, node)
                    if len(closed) > 1 or node in edges.get(node, ()):
                        found.append(closed)
            elif following not in number:
                number[following] = low[following] = len(number)
                open_nodes[following] = None
                work.append((following, iter(edges.get(following, ()))))
            elif following in open_nodes:
                low[node] = min(low[node], number[following])
    return found


def _closed(open_nodes: dict[Node, None], node: Node) -> list[Node]:
    """Return what was opened since a node, with it; it is not open any more."""
    closed = []
    while True:
        last, _ = open_nodes.popitem()
        closed.append(last)
        if last == node:
            return closed


def _path_back(edges: Mapping[Node, Sequence[Node]], inside: set[Node], start: Node, below: int) -> list[Node]:
    """Return the nodes of a shortest path from a node to itself, if it has fewer than `below`; else none."""
    came_from: dict[Node, Node] = {}
    todo = deque([(start, 1)])
    while todo:
        node, length = todo.popleft()
        if length >= below:
            return []
        for following in edges.get(node, ()):
            if following == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if following in inside and following not in came_from:
                came_from[following] = node
                todo.append((following, length + 1))
    return []
