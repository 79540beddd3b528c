"""Causes and cures behind the reasons that a broker gives at `/v1/status/ready`, for one that names no cure itself."""

import re
from typing import NamedTuple

_NODE = "{node}"
_IF_LOST = f"if the disk is lost: raftka broker replace {_NODE}"
_NO_MAJORITY = "fewer than a majority of the brokers run and reach each other"


class Explanation(NamedTuple):
    """Why it is so, and what to do."""

    cause: str
    cure: str


_START_OTHERS = "start the other brokers until a majority runs, and check the network between them"
# The first pattern that is found counts.
_EXPLANATIONS = (
    (
        r"^not registered with raft0",
        Explanation(
            "it has started, and raft0's leader has not taken its addresses yet",
            f"wait some seconds; if it lasts, {_START_OTHERS}",
        ),
    ),
    (r"^raft0 has no leader", Explanation(_NO_MAJORITY, _START_OTHERS)),
    (
        r"^not every broker has registered",
        Explanation(
            "a broker of the cluster has not started since it was founded",
            "start every broker of the cluster",
        ),
    ),
    (
        r"^the disk hangs",
        Explanation(
            "its disk has not completed a write or an fsync for raft.flush.stall.timeout.ms",
            "look at the disk and the kernel's log (`dmesg`, `iostat -x`); if it stays so, stop the broker, and repair"
            f" the disk; {_IF_LOST}",
        ),
    ),
    (
        r"^replicas are being opened",
        Explanation("it reads its logs after its start", "wait; its log names each replica that takes part again"),
    ),
    (
        r" is opened again without what is damaged",
        Explanation(
            "a read has found damage in the files of a replica, and the replica is opened without it",
            f"wait, and keep the other replicas of the partition running: they send it what it lacks; {_IF_LOST}",
        ),
    ),
    (
        r" (?:cannot start|has stopped|is damaged): ",
        Explanation(
            "files of a replica cannot be used",
            "read its log, which names the file; repair the disk, then restart the broker: the other replicas send it"
            f" what it lacks; {_IF_LOST}",
        ),
    ),
    (
        r" gets back what damage took",
        Explanation(
            "entries of a replica were damaged, and the other replicas send them again",
            "wait, and keep the other replicas of the partition running",
        ),
    ),
    (
        r"^partition .* has no leader$",
        Explanation(
            "fewer than a majority of the partition's replicas run and reach each other",
            "bring brokers back until a majority of the partition's replicas runs",
        ),
    ),
)
_UNKNOWN = Explanation("the broker names no other cause than this reason", "read its log")


def explain(reason: str, node: int | None = None) -> Explanation:
    """Return cause and cure of a reason; neither is ever empty.

    The cure names the broker whose reason it is by its node id; None: that is not known, and it says N.
    """
    found = next((found for pattern, found in _EXPLANATIONS if re.search(pattern, reason)), _UNKNOWN)
    return Explanation(found.cause, found.cure.replace(_NODE, "N" if node is None else str(node)))
