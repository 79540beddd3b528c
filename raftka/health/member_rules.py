"""Rules about brokers that were drained, emptied or replaced, and about who votes in raft0."""

from collections.abc import Iterator

from raftka.counted import counted
from raftka.health.findings import Finding, Level
from raftka.health.picture import BrokerPicture, MemberPicture, Picture

# Longer than a broker is drained for the sake of a restart: somebody has forgotten it.
DRAINED_SECONDS = 3600.0
# So long no replica has left a broker that is to be empty.
IDLE_SECONDS = 600.0


def check_members(picture: Picture) -> Iterator[Finding]:
    """Name brokers with which somebody has begun something, and has not ended it."""
    for broker in picture.brokers:
        member = broker.member
        if member is None:
            continue
        if member.state == "decommissioning":
            yield _decommissioning(broker, member)
        elif member.is_retired:
            yield Finding(
                Level.WARNING,
                _name(broker),
                "its data directory is retired, and it has not joined with a new one",
                f"start broker {broker.node_id} with an empty data.dir; if it is not to come back:"
                f" raftka broker decommission {broker.node_id}",
                f"`raftka broker replace {broker.node_id}` was run, and its replicas wait for it",
            )
        elif member.state == "draining":
            is_forgotten = member.state_seconds >= DRAINED_SECONDS
            yield Finding(
                Level.WARNING if is_forgotten else Level.NOTE,
                _name(broker),
                f"it is being drained, for {_for(member.state_seconds)}: it leads nothing, and gets nothing new",
                f"when its work is done: raftka broker undrain {broker.node_id}",
                f"`raftka broker drain {broker.node_id}` was run",
            )


def _decommissioning(broker: BrokerPicture, member: MemberPicture) -> Finding:
    node = broker.node_id
    cause = f"`raftka broker decommission {node}` was run"
    if not member.replicas:
        voting = member.raft0 == "voter"
        words = "its vote in raft0 is still to go elsewhere" if voting else "it is empty, and was not removed"
        cure = "wait; a broker that is to vote in its place must be up" if voting else f"raftka broker remove {node}"
        return Finding(Level.NOTE, _name(broker), words, cure, cause)
    left = f"{counted(member.replicas, 'replica')} still to move away from it"
    if member.idle_seconds < IDLE_SECONDS:
        return Finding(Level.NOTE, _name(broker), left, f"wait; raftka broker recommission {node} takes it back", cause)
    return Finding(
        Level.WARNING,
        _name(broker),
        f"{left}, and none has for {_for(member.idle_seconds)}",
        f"see what they wait for: raftka broker decommission {node}; to keep the broker: raftka broker recommission"
        f" {node}",
        f"{cause}; no broker can take them, or moves do not go on",
    )


def check_voters(picture: Picture) -> Iterator[Finding]:
    """Say that raft0 has an even number of voters."""
    voters = [each.node_id for each in picture.brokers if each.member is not None and each.member.raft0 == "voter"]
    if len(voters) > 2 and len(voters) % 2 == 0:
        yield Finding(
            Level.WARNING,
            "raft0",
            f"{len(voters)} brokers vote in raft0 ({', '.join(map(str, voters))}): as few may fail as with"
            f" {len(voters) - 1}",
            "wait some seconds, for raft0's leader makes it odd; if it lasts, start the brokers that do not answer;"
            " those that are not to come back: raftka broker decommission N",
            "a broker that votes is to go, and none that has caught up can vote in its place",
        )


def _for(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _name(broker: BrokerPicture) -> str:
    return f"broker {broker.node_id}"
