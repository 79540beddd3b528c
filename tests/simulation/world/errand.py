"""What an operator asks brokers for, one after the other, until it is done or refused for good (RFC 0020)."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from cluster.errors import ClusterError
from cluster.node import Node
from tests.simulation.world.cluster import SimCluster

_PAUSE = 0.5
# Longer than any request takes.
_PATIENCE = 6.0


class Errand:
    """One change; it goes on when the broker that was asked dies.

    Args:
        cluster: Whose brokers are asked.
        rng: Chooses them.
        name: Of the counts of what came of it.
        ask: Asks one of them.
        done: Called once it is done.
        refused: Called if it cannot be.
        final: What says that it cannot be; all other errors pass.
        subject: This broker is not asked.
        doubted: Called instead of `refused` if an attempt before had no answer that counts: it may still be done.
    """

    def __init__(
        self,
        cluster: SimCluster,
        rng: Random,
        name: str,
        ask: Callable[[Node], Coroutine[Any, Any, Any]],
        done: Callable[[], None],
        refused: Callable[[], None],
        final: tuple[type[ClusterError], ...],
        subject: int | None = None,
        doubted: Callable[[], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._name = name
        self._ask = ask
        self._done = done
        self._refused = refused
        self._final = final
        self._subject = subject
        self._doubted = doubted or refused
        self._attempt = 0

    def begin(self) -> None:
        """Ask until there is an answer that counts."""
        world, attempt = self._cluster.world, self._attempt
        node = self._any_node()
        if node is None:
            world.after(_PAUSE, self.begin)
            return
        world.nodes[node.options.node_id].spawn(self._asked(node, attempt))
        # Who was asked may have died.
        world.after(_PATIENCE, self._go_on, attempt)

    def _any_node(self) -> Node | None:
        nodes = [
            node
            for node_id, node in self._cluster.nodes.items()
            if node_id != self._subject and hasattr(node, "broker_changes") and node.is_registered.is_set()
        ]
        return self._rng.choice(nodes) if nodes else None

    async def _asked(self, node: Node, attempt: int) -> None:
        error: ClusterError | None = None
        try:
            await self._ask(node)
        except ClusterError as raised:
            error = raised
        name = "NONE" if error is None else type(error).__name__
        self._cluster.history.counts[f"{self._name} {name}"] += 1
        self._cluster.world.after(0.0, self._ended, attempt, error)

    def _ended(self, attempt: int, error: ClusterError | None) -> None:
        if attempt != self._attempt:
            return
        if error is not None and not isinstance(error, self._final):
            self._cluster.world.after(_PAUSE, self._go_on, attempt)
            return
        is_first = attempt == 0
        self._attempt += 1
        if error is None:
            self._done()
        elif is_first:
            self._refused()
        else:
            self._doubted()

    def _go_on(self, attempt: int) -> None:
        if attempt == self._attempt:
            self._attempt += 1
            self.begin()
