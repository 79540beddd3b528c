"""What is wrong with the cluster in a picture: rules, each from a picture to findings.

The findings of a picture depend on nothing else: not on who looks, nor on the order of brokers, topics and partitions.
docs/operations/health.md has a section for each rule.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from raftka.counted import counted
from raftka.health import broker_rules, compaction_rules, member_rules, move_rules, setting_rules, transaction_rules
from raftka.health.findings import Finding, Level, listed, ok
from raftka.health.picture import PartitionPicture, Picture

# Below this many leaders nobody can speak of balance.
LEADERS_MIN = 12
_CURE_MISSING = (
    "start the broker, or restart it if it hangs (`raftka dev restart N`, or its service); read its log, and check the"
    " network to it"
)
_IF_GONE = (
    "; if the disk of one is lost: raftka broker replace N; if one is not to come back: raftka broker decommission N"
)
_NO_MAJORITY = "fewer than a majority of the replicas run and reach each other"


class Rule(NamedTuple):
    """One rule; `name` is the title of its section in docs/operations/health.md."""

    name: str
    check: Callable[[Picture], Iterator[Finding]]


def check_brokers(picture: Picture) -> Iterator[Finding]:
    """Name brokers of which nothing is heard.

    Of one that hangs, or whose links are refused, more is known: `check_hanging` and `check_refused` name it. One whose
    directory is retired is not expected to answer.
    """
    # One whose directory is retired cannot just be started: `check_members` names it.
    expected = [each for each in picture.brokers if each.member is None or not each.member.is_retired]
    lost = [each for each in expected if each.is_lost and not each.hangs and not each.refused]
    missing = [f"broker {each.node_id}{f' at {each.kafka}' if each.kafka else ''} does not answer" for each in lost] + [
        f"nobody listens at {address}" for address in picture.silent
    ]
    if missing:
        cause = "its process does not run, or hangs, or the network to it is cut"
        cure = _CURE_MISSING + (_IF_GONE if lost and picture.is_raftka else "")
        yield Finding(Level.PROBLEM, "brokers", ", ".join(missing), cure, cause)
    elif all(each.answers for each in picture.brokers) and picture.brokers:
        controller = picture.controller if picture.controller is not None and picture.controller >= 0 else None
        led = "" if controller is None else f"; {controller} is the controller"
        verb = "answers" if len(picture.brokers) == 1 else "answer"
        yield ok("brokers", f"{_nodes(each.node_id for each in picture.brokers)} {verb}{led}")


def check_controller(picture: Picture) -> Iterator[Finding]:
    """Say that there is no controller."""
    if picture.controller is not None and picture.controller < 0:
        yield Finding(
            Level.PROBLEM,
            "controller",
            "there is none, so clients cannot create, change or delete topics",
            "bring a majority of the brokers back",
            "fewer than a majority of the brokers run and reach each other",
        )


def check_leaders(picture: Picture) -> Iterator[Finding]:
    """Name partitions without a leader."""
    if picture.partitions is None:
        return
    offline = [each for each in picture.partitions if each.is_offline]
    if not offline:
        yield ok("leaders", "every partition has one")
    # To bring brokers back does not help those of which retired directories leave no majority: `check_quorums` names
    # them.
    offline = [each for each in offline if not each.waits_for_force]
    if not offline:
        return
    nodes = sorted({node for each in offline for node in each.replicas if node not in each.retired})
    away = [node for node in nodes if node in picture.lost]
    yield Finding(
        Level.PROBLEM,
        "leaders",
        f"no leader for {_names(offline)}: no reads and no writes",
        f"bring brokers back until a majority of the replicas runs (they are on {_nodes(nodes)})",
        f"{_NO_MAJORITY}; {_who(away)} not answer" if away else f"{_NO_MAJORITY}, or an election is under way",
    )


def check_replicas(picture: Picture) -> Iterator[Finding]:
    """Name partitions that are under-replicated."""
    if picture.partitions is None:
        return
    lagging = [each for each in picture.partitions if each.lagging]
    if not lagging:
        if not any(each.is_offline for each in picture.partitions):
            placed = {node for each in picture.partitions for node in each.replicas}
            away = [node for node in picture.lost if node in placed]
            # A leader takes a replica out of the in-sync set only after raft.replica.lag.time.max.ms.
            late = f" by their leaders' last word, from before they missed broker {_nodes(away)}" if away else ""
            count = sum(bool(each.target) for each in picture.partitions)
            moves = f"; {counted(count, 'partition')} being moved: replicas that only come do not count"
            yield ok("replicas", f"all in sync{late}{moves if count else ''}")
        return
    nodes = sorted({node for each in lagging for node in each.lagging})
    away = [node for node in nodes if node in picture.lost]
    names = _nodes(nodes)
    moving = [each for each in lagging if each.target]
    yield Finding(
        Level.PROBLEM,
        "replicas",
        f"not in sync on broker{'s' if len(nodes) > 1 else ''} {names}: {_names(lagging)}",
        f"bring the missing brokers back{_IF_GONE if picture.is_raftka else ''}"
        if away
        else _cure_of_lagging(nodes, moving),
        f"{_who(away)} not answer"
        if away
        else "these replicas lack records that the leaders have"
        + (f", and a move loads disks and links: {_names(moving)}" if moving else ""),
    )


def _cure_of_lagging(nodes: list[int], moving: list[PartitionPicture]) -> str:
    names, is_one = _nodes(nodes), len(nodes) == 1
    cure = (
        f"wait, if broker {names} has just started; else see its log, its disk and its load"
        if is_one
        else f"wait, if brokers {names} have just started; else see their logs, disks and load"
    )
    return cure + ("; a move can be made slower (docs/operations/moving.md)" if moving else "")


def check_writes(picture: Picture) -> Iterator[Finding]:
    """Name partitions that refuse acks=all."""
    by_needed: dict[int, list[PartitionPicture]] = {}
    for each in picture.partitions or ():
        if each.refuses_writes and each.min_isr is not None:
            by_needed.setdefault(each.min_isr, []).append(each)
    for needed, short in sorted(by_needed.items()):
        topics = sorted({each.topic for each in short})
        yield Finding(
            Level.PROBLEM,
            "writes",
            f"acks=all is refused by {_names(short)}: min.insync.replicas is {needed}",
            "bring replicas back, or lower it: raftka topic alter-config"
            f" {topics[0] if len(topics) == 1 else 'TOPIC'} --set min.insync.replicas=...",
            "fewer replicas than min.insync.replicas are in sync",
        )


def check_stalled(picture: Picture) -> Iterator[Finding]:
    """Name partitions that commit nothing though there is something to commit.

    Of those without a leader `check_leaders` says more, and of moves without a majority `check_quorums`.
    """
    stuck = {(each.topic, each.number) for each in picture.moves or () if each.lost_voter_sets}
    lost = frozenset(picture.lost)
    slow: list[PartitionPicture] = []
    dead: list[PartitionPicture] = []
    for each in picture.partitions or ():
        if each.is_stalled and not each.is_offline and (each.topic, each.number) not in stuck:
            running = sum(node not in lost for node in each.replicas)
            (slow if 2 * running > len(each.replicas) else dead).append(each)
    if dead:
        away = sorted({node for each in dead for node in each.replicas if node in lost})
        yield Finding(
            Level.PROBLEM,
            "stalled",
            f"the newest entries are not committed for 10 s: {_names(dead)}",
            f"bring the missing brokers back{_IF_GONE if picture.is_raftka else ''}",
            f"{_who(away)} not answer, and without {'it' if len(away) == 1 else 'them'} no majority has these entries",
        )
    if slow:
        leaders = sorted({each.leader for each in slow if each.leader is not None})
        followers = sorted({node for each in slow for node in each.replicas if node != each.leader})
        looked_at = followers or leaders
        where = f"broker{'s' if len(looked_at) > 1 else ''} {_nodes(looked_at)}"
        yield Finding(
            Level.PROBLEM,
            "stalled",
            f"the newest entries are not committed for 10 s: {_names(slow)}",
            f"look at disks, logs and load of {where}; if they are well, let another broker lead instead of"
            f" {_nodes(leaders)}: raftka partition transfer-leadership TOPIC PARTITION",
            "a majority of the replicas answers the leader, and does not make its entries durable",
        )


def check_balance(picture: Picture) -> Iterator[Finding]:
    """Say whether one broker leads too much."""
    leaders = Counter(each.leader for each in picture.partitions or () if each.leader is not None)
    total = leaders.total()
    brokers = sum(not each.is_lost for each in picture.brokers)
    if brokers < 2 or total < LEADERS_MIN:
        return
    node, most = min(leaders.items(), key=lambda item: (-item[1], item[0]))
    if most > 2 * total / brokers:
        yield Finding(
            Level.NOTE,
            "balance",
            f"broker {node} leads {most} of {counted(total, 'partition')}",
            "let others lead some: raftka partition elect-preferred --all",
            "leaders stay where they were elected, for example after a restart of the others",
        )
    else:
        yield ok("balance", f"no broker leads more than {most} of {counted(total, 'partition')}")


RULES = (
    Rule("Lost brokers", check_brokers),
    Rule("Brokers that hang", broker_rules.check_hanging),
    Rule("Brokers that run and do not serve", broker_rules.check_ready),
    Rule("Refused links", broker_rules.check_refused),
    Rule("No controller", check_controller),
    Rule("Partitions without a leader", check_leaders),
    Rule("Under-replicated partitions", check_replicas),
    Rule("Refused writes", check_writes),
    Rule("Stalled partitions", check_stalled),
    Rule("Hanging transactions", transaction_rules.check_hanging),
    Rule("Groups without a quorum", move_rules.check_quorums),
    Rule("Moves without progress", move_rules.check_moves),
    Rule("Replicas that cannot leave", move_rules.check_unleft),
    Rule("Throttles left behind", move_rules.check_throttles),
    Rule("Brokers on their way", member_rules.check_members),
    Rule("Voters of raft0", member_rules.check_voters),
    Rule("Too few replicas", setting_rules.check_copies),
    Rule("Risky settings of topics", setting_rules.check_settings),
    Rule("Unbalanced leaders", check_balance),
    Rule("Different configurations", setting_rules.check_configs),
    Rule("Different versions", setting_rules.check_versions),
    Rule("Features that are not raised", move_rules.check_features),
    Rule("Bounds that are reached", broker_rules.check_bounds),
    Rule("Full disks", broker_rules.check_disks),
    Rule("Logs that are not compacted", compaction_rules.check_suspended),
    Rule("Tombstones that stay", compaction_rules.check_held),
    Rule("Clocks that differ", broker_rules.check_clocks),
    Rule("Lost events", broker_rules.check_events),
)


def judge(picture: Picture) -> list[Finding]:
    """Return what all rules find, in the order of RULES."""
    ordered = in_order(picture)
    return [finding for rule in RULES for finding in rule.check(ordered)]


def in_order(picture: Picture) -> Picture:
    """Return the picture in the order that `check` of a rule needs: by node id, by topic and number, by name."""
    brokers = tuple(
        replace(each, fills=tuple(sorted(each.fills, key=lambda fill: (-fill.share, fill.name))))
        for each in sorted(picture.brokers, key=lambda broker: broker.node_id)
    )
    partitions = picture.partitions
    return replace(
        picture,
        brokers=brokers,
        partitions=None
        if partitions is None
        else tuple(sorted(partitions, key=lambda each: (each.topic, each.number))),
        topics=tuple(sorted(picture.topics, key=lambda topic: topic.name)),
        moves=None
        if picture.moves is None
        else tuple(sorted(picture.moves, key=lambda move: (move.topic, move.number))),
        silent=tuple(sorted(picture.silent)),
        hanging=tuple(sorted(picture.hanging)),
    )


def _names(partitions: Iterable[PartitionPicture]) -> str:
    return listed([each.name for each in partitions])


def _nodes(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))


def _who(nodes: list[int]) -> str:
    return f"broker{'s' if len(nodes) > 1 else ''} {_nodes(nodes)} {'do' if len(nodes) > 1 else 'does'}"
