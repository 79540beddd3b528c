"""Rules about partitions that are being moved or were moved, and about features that membership needs."""

from collections.abc import Iterable, Iterator, Sequence

from raftka.counted import brokers as named_brokers
from raftka.health.findings import Finding, Level, listed
from raftka.health.picture import MovePicture, PartitionPicture, Picture

# So long nothing has got further: somebody must look.
IDLE_SECONDS = 600.0
_Sets = tuple[tuple[int, ...], ...]
# As brokers say it (`raft.membership_steps`), which this package cannot import.
FORCE = "a decision that loses records: this version has no command for it, and decides nothing by itself"
NO_FORCE = f"the partition waits for {FORCE}"


def retired_directories(nodes: Iterable[int]) -> str:
    """Return why voters on these nodes never answer, in words."""
    return ", and ".join(f"the data directory that broker {each} voted with is retired" for each in nodes)


def check_quorums(picture: Picture) -> Iterator[Finding]:
    """Name partitions whose voters cannot decide anything: a majority of a voter set does not answer.

    Of partitions that are not moved, those of which a retired directory is the reason: no broker can bring it back.
    """
    yield from _quorums_of_moves(picture)
    unmoved: dict[tuple[tuple[int, ...], tuple[int, ...]], list[PartitionPicture]] = {}
    for each in picture.partitions or ():
        if each.waits_for_force:
            unmoved.setdefault((each.replicas, each.retired), []).append(each)
    for (voters, retired), partitions in unmoved.items():
        topics = sorted({each.topic for each in partitions})
        yield Finding(
            Level.PROBLEM,
            "quorum",
            f"no majority of the voters {_nodes(voters)} answers, so there are no writes and no elections:"
            f" {_names(partitions)}",
            f"{NO_FORCE}; to give its records up: raftka topic delete {topics[0] if len(topics) == 1 else 'TOPIC'},"
            " then create it again, or restore it from an archive",
            retired_directories(retired),
        )


def _quorums_of_moves(picture: Picture) -> Iterator[Finding]:
    alike: dict[tuple[_Sets, tuple[int, ...], tuple[int, ...]], list[MovePicture]] = {}
    for each in picture.moves or ():
        if each.lost_voter_sets:
            alike.setdefault((each.lost_voter_sets, each.away, each.retired), []).append(each)
    for (lost, away, retired), moves in alike.items():
        sets = " and ".join(_nodes(voters) for voters in lost)
        causes = [f"{named_brokers(away)} {'is' if len(away) == 1 else 'are'} away"] if away else []
        causes += [retired_directories(retired)] if retired else []
        yield Finding(
            Level.PROBLEM,
            "quorum",
            f"no majority of the voters {sets} answers, so there are no writes and no elections: {_names(moves)}",
            f"start {named_brokers(away)}; {_if_lost(away)}, {NO_FORCE}" if away else NO_FORCE,
            ", and ".join(["they are being moved", *causes]),
        )


def check_moves(picture: Picture) -> Iterator[Finding]:
    """Name moves that have not got further for ten minutes."""
    for each in picture.moves or ():
        if each.lost_voter_sets or each.idle_seconds is None or each.idle_seconds < IDLE_SECONDS:
            continue
        name = f"{each.topic}/{each.number}"
        way = "back to where it was" if each.is_cancelled else f"to {named_brokers(each.target)}"
        absent = tuple(node for node in each.target if node in each.away)
        cures = _cures_of_absence(absent) if absent else ["see to what it waits for (raftka partition moves)"]
        cures += [] if each.is_cancelled else [f"or take it back: raftka partition cancel {name}"]
        yield Finding(
            Level.WARNING,
            "moves",
            f"{name}, on its way {way}, has not got further for {each.idle_seconds / 60:.0f} min",
            "; ".join(cures),
            f"it waits until {each.waits_for}" if each.waits_for else f"its state is {each.state}",
        )


def _cures_of_absence(nodes: tuple[int, ...]) -> list[str]:
    """Return what to do about brokers that a partition moves to, and that are away: it goes nowhere else by itself."""
    is_one = len(nodes) == 1
    node = nodes[0] if is_one else "N"
    others = "another broker take its place" if is_one else "others take their places"
    return [
        f"start {named_brokers(nodes)}",
        f"{_if_lost(nodes)}: raftka broker replace {node}",
        f"to let {others}: raftka broker decommission {node}",
    ]


def _if_lost(nodes: tuple[int, ...]) -> str:
    return "if its disk is lost" if len(nodes) == 1 else "if their disks are lost"


def check_unleft(picture: Picture) -> Iterator[Finding]:
    """Name replicas that were moved elsewhere, and whose files cannot be removed."""
    for broker in picture.brokers:
        if broker.unleft:
            name, why = broker.unleft[0]
            more = f" and {len(broker.unleft) - 1} more" if len(broker.unleft) > 1 else ""
            yield Finding(
                Level.WARNING,
                f"broker {broker.node_id}",
                f"{name}{more} cannot leave it, though it was moved elsewhere: {why}",
                "look at its disk; the broker tries again by itself",
                "the disk refuses to remove the files, or does not tell what it has",
            )


def check_throttles(picture: Picture) -> Iterator[Finding]:
    """Name throttles that were set for moves, while nothing moves."""
    if picture.moves is None or picture.moves:
        return
    topics = [each for each in picture.topics if each.throttles]
    brokers = [each for each in picture.brokers if each.throttles]
    rates = sorted({key for each in brokers for key in each.throttles})
    nodes = named_brokers(tuple(each.node_id for each in brokers))
    clear = "`kafka-reassign-partitions --verify` with the file of the moves clears it"
    unset = f"raftka cluster config unset {' '.join(rates)} --node N, and without --node what is set for all brokers"
    cause = "moves were throttled, and nobody has cleared that after the last one"
    if topics:
        keys = sorted({key for each in topics for key in each.throttles})
        names = listed([each.name for each in topics])
        at = f", at rates that are set on {nodes}" if brokers else ""
        deleted = " ".join(f"--delete {key}" for key in keys)
        delete = f"raftka topic alter-config {topics[0].name if len(topics) == 1 else 'TOPIC'} {deleted}"
        cure = f"{clear}; or: {delete}{f'; {unset}' if brokers else ''}"
        words = f"nothing moves, and replicas of {names} are still throttled{at}: after a restart they catch up slowly"
        yield Finding(Level.WARNING, "throttles", words, cure, cause)
    elif brokers:
        words = f"nothing moves, and rates of throttled replicas are still set on {nodes}"
        yield Finding(Level.NOTE, "throttles", words, f"{clear}; or: {unset}", cause)


def check_features(picture: Picture) -> Iterator[Finding]:
    """Say that all brokers could use a feature at a higher level than the cluster does."""
    brokers = [each for each in picture.brokers if each.features is not None and each.levels is not None]
    if not brokers or len(brokers) < len(picture.brokers):
        return  # A broker whose version nobody knows may be an older one.
    for name in sorted({name for each in brokers for name in each.features or {}}):
        highest = min((each.features or {}).get(name, 0) for each in brokers)
        # A broker that lags behind raft0 tells a lower one.
        level = max((each.levels or {}).get(name, 0) for each in brokers)
        if level < highest:
            yield Finding(
                Level.NOTE,
                "features",
                f"{name} is used at level {level}, and all brokers have level {highest}",
                "if no broker shall return to its older version: raftka cluster features upgrade",
                "an upgrade ends with that command: no level rises by itself",
            )


def _names(partitions: Sequence[MovePicture | PartitionPicture]) -> str:
    return listed([f"{each.topic}-{each.number}" for each in partitions])


def _nodes(nodes: tuple[int, ...]) -> str:
    return ",".join(map(str, nodes))
