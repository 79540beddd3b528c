"""What the admin port says while the broker starts: that it lives, and what it waits for.

The port opens before the cluster is founded or joined, because both may wait for other brokers for ever.
"""

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from cluster.errors import ClusterError
from cluster.first_contact import FirstContact
from cluster.founding_words import Seed
from cluster.node import Node, StartPhase
from cluster.node_options import NodeOptions
from model.error_text import reason_of
from raftka.broker.readiness import NotReady, refusal_of
from raftka.health.refusals import explain
from rpc.errors import HandshakeRefusedError

LIVE = "/v1/status/live"
READY = "/v1/status/ready"
# How every reason of a broker that starts begins: `raftka.admin_client` tells it by that.
STARTING = "starting: "
# What a broker waits for seeds to do.
_FOUNDS, _JOINS = "found the cluster", "let this broker join their cluster"
Unanswered = tuple[Seed, Exception | None]
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Starting:
    """Answers for the broker until `end`: LIVE as ever, READY with 503 and the reason, everything else with 503.

    Args:
        node_id: Of this broker.
    """

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self._phase: Callable[[], NotReady] = lambda: NotReady("reading the configuration")
        self._is_over = False

    def enter(self, phase: str | Callable[[], NotReady]) -> None:
        """Say what the broker does from now on, in words or by a function that is asked each time."""
        self._phase = (lambda: NotReady(phase)) if isinstance(phase, str) else phase

    def end(self) -> None:
        """Pass every request on from now on."""
        self._is_over = True

    @property
    def not_ready(self) -> NotReady:
        """What the broker waits for."""
        reason, cure = self._phase()
        return NotReady(STARTING + reason, cure)

    @web.middleware
    async def middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer in the broker's place while it starts."""
        if self._is_over or request.path == LIVE:
            return await handler(request)
        if request.path == READY:
            return ready_response(self.node_id, self.not_ready)
        return web.json_response({"error": f"node {self.node_id} is {self.not_ready.reason}"}, status=503)


def ready_response(node_id: int, found: NotReady | None) -> web.Response:
    """Return the answer to READY: 200, or 503 with reason and cure (null: there is none)."""
    if found is None:
        return web.json_response({"ready": True, "node_id": node_id})
    answer = {"ready": False, "node_id": node_id, "reason": found.reason, "cure": found.cure}
    return web.json_response(answer, status=503)


def node_phase(node: Node) -> NotReady:
    """Return what a node does whose `start` has not returned."""
    if node.phase is StartPhase.DIRECTORY:
        return NotReady("reading the data directory")
    if node.phase is StartPhase.SEEDS:
        return _waits_for_seeds(node)
    return NotReady("opening replicas")


def _waits_for_seeds(node: Node) -> NotReady:
    """Return what a broker waits for that has written its identity: the others of the founding, or to be let in."""
    if node.joining is not None:
        return _waits_for(node.options, node.joining.unanswered(), _JOINS)
    if not (unanswered := node.founding.unanswered()):
        return NotReady("founding the cluster")
    return _waits_for(node.options, unanswered, _FOUNDS)


def contact_phase(contact: FirstContact, options: NodeOptions) -> NotReady:
    """Return what a broker does whose first contact has not been made: nothing is written yet."""
    if contact.joining is None:
        return NotReady("reading the data directory")
    is_founder = any(seed.node_id == options.node_id for seed in options.seeds)
    return _waits_for(options, contact.joining.unanswered(), _FOUNDS if is_founder else _JOINS)


def _waits_for(options: NodeOptions, unanswered: Sequence[Unanswered], to_do: str) -> NotReady:
    own = options.node_id
    refused = [refusal_of(seed.node_id, why) for seed, why in unanswered if isinstance(why, HandshakeRefusedError)]
    # Who says why it cannot let this broker in does answer.
    answers = (HandshakeRefusedError, ClusterError)
    silent = [str(seed.node_id) for seed, why in unanswered if not isinstance(why, answers)]
    cures = [explained.cure] if (explained := explain(own, refused)) is not None else []
    if silent:
        cures.append(f"start the brokers that do not answer ({', '.join(silent)}), or correct their addresses in seeds")
    shown = ", ".join(_shown(own, seed, why) for seed, why in unanswered)
    return NotReady(f"waiting for seeds to {to_do}: {shown}", "; ".join(cures) or None)


def _silence(why: Exception) -> str:
    # asyncio names the address once more: "Connect call failed ('10.0.0.2', 33145)".
    return "nobody listens there" if isinstance(why, ConnectionRefusedError) else reason_of(why)


def _shown(own: int, seed: Seed, why: Exception | None) -> str:
    if isinstance(why, HandshakeRefusedError):
        explained = explain(own, [refusal_of(seed.node_id, why)])
        assert explained is not None
        words = explained.words
    else:
        words = "not dialled yet" if why is None else _silence(why)
    return f"{seed.node_id}@{seed.host}:{seed.port} ({words})"
