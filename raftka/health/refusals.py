"""What a refused handshake between two brokers means, and what an operator does about it.

Brokers refuse each other before the first request (RFC 0001 section 3). Which of the two is configured wrongly, neither
knows; where it matters the cure says how to find out.
"""

from collections.abc import Sequence
from typing import NamedTuple

# How a refusal of a directory says that it never counts again.
_RETIRED = " is retired and never counts again"
# How a refusal of a cluster says that raft0 was recovered by hand on one side only.
_RECOVERED = ": raft0 was recovered by hand"
_UPGRADE = "docs/operations/upgrade.md"
# A peer writes its message itself.
_SHOWN_CHARACTERS = 300


class Refusal(NamedTuple):
    """One refused handshake.

    Attributes:
        peer: Node id of the other broker.
        kind: Name of the reason, of `rpc.errors.RefusalCode`: WRONG_SECRET, WRONG_CLUSTER, WRONG_DIRECTORY, WRONG_NODE,
            UNSUPPORTED_VERSION or MALFORMED; any other is told by its message.
        by_peer: Whether the other broker refused this one; False: this one refused the other.
        message: What the refuser said.
    """

    peer: int
    kind: str
    by_peer: bool
    message: str


class Explained(NamedTuple):
    """What refusals mean: one line of words, and the cure."""

    words: str
    cure: str


class RefusedLink(NamedTuple):
    """What one broker tells of its links with another one: words and cure in one line each, `age` in seconds."""

    words: str
    cure: str
    age: float


def explain(own: int, refusals: Sequence[Refusal]) -> Explained | None:
    """Return what these refusals mean for broker `own`; None for no refusal.

    Peers with the same reason are told together. The cure is that of the reason with the most peers.
    """
    groups: dict[tuple[str, bool, bool], list[Refusal]] = {}
    for refusal in refusals:
        # By the peers or by this broker is the same fact, except for a directory: one of the two has the wrong one.
        by_peer = refusal.by_peer and refusal.kind == "WRONG_DIRECTORY"
        detail = _RETIRED in refusal.message or _RECOVERED in refusal.message
        groups.setdefault((refusal.kind, by_peer, detail), []).append(refusal)
    told = [_explain_alike(own, alike) for alike in sorted(groups.values(), key=len, reverse=True)]
    return Explained("; ".join(each.words for each in told), told[0].cure) if told else None


def _explain_alike(own: int, refusals: Sequence[Refusal]) -> Explained:
    peers = sorted({refusal.peer for refusal in refusals})
    who = f"broker{'s' if len(peers) > 1 else ''} {', '.join(map(str, peers))}"
    one = len(peers) == 1
    first = refusals[0]
    said = first.message.removeprefix("the peer says: ")[:_SHOWN_CHARACTERS]
    match first.kind:
        case "WRONG_SECRET":
            return Explained(
                f"{who} and this broker ({own}) have different cluster secrets",
                "put the same secret into the file of cluster.secret.file on every broker, and restart each broker"
                " whose file has changed",
            )
        case "WRONG_CLUSTER" if _RECOVERED in first.message:
            return Explained(
                f"{who} and this broker ({own}) know different generations of raft0: {said}",
                "start the broker of the lower generation with an empty data.dir: it joins anew",
            )
        case "WRONG_CLUSTER":
            return Explained(
                f"{who} and this broker ({own}) belong to different clusters: {said}",
                "on the broker that is wrong, name the data directory of this cluster as data.dir, or the brokers of"
                " its own cluster as seeds; then restart it",
            )
        case "WRONG_DIRECTORY" if _RETIRED in first.message:
            whose = f"this broker ({own})" if first.by_peer else who
            named = f"broker {own}" if first.by_peer else who
            return Explained(
                f"the data directory of {whose} is retired and never counts again",
                f"start {named} with an empty data.dir; if it was removed from the cluster, leave it stopped",
            )
        case "WRONG_DIRECTORY" if first.by_peer:
            return Explained(
                f"{who} {'knows' if one else 'know'} this broker ({own}) by another data directory",
                f"name the original data directory of broker {own} as data.dir, or bring it back; then restart"
                f" broker {own}; if that directory is lost: raftka broker replace {own}",
            )
        case "WRONG_DIRECTORY":
            return Explained(
                f"{who} came with another data directory than the one that this broker ({own}) knows",
                f"bring the original data directory of {who} back, and restart {who}; if it is lost:"
                f" {' and '.join(f'raftka broker replace {peer}' for peer in peers)}",
            )
        case "WRONG_NODE":
            return Explained(
                f"the address of {who} is not answered by {'it' if one else 'them'}: {said}",
                "compare seeds with node.id and rpc.address of every broker; correct what is wrong, and restart that"
                " broker",
            )
        case "UNSUPPORTED_VERSION":
            return Explained(
                f"{who} and this broker ({own}) have versions that do not understand each other: {said}",
                "start the newer version on the broker of the older one; an older version cannot come back once the"
                f" level of a feature was raised ({_UPGRADE})",
            )
        case "MALFORMED":
            return Explained(
                f"what answers at the address of {who} is no broker, or its bytes arrive damaged: {said}",
                "compare seeds with rpc.address and rpc.port of that broker, and check the network",
            )
        case _:
            return Explained(f"{who} and this broker ({own}) refuse each other: {said}", "see the logs of both brokers")
