"""What is wrong with the cluster in a picture: rules, each from a picture to findings.

The findings of a picture depend on nothing else: not on who looks, nor on the order of brokers, topics and partitions.
docs/operations/health.md has a section for each rule.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from raftka.counted import counted
from raftka.health import broker_rules, member_rules, move_rules, transaction_rules
from raftka.health.findings import Finding, Level, ok
from raftka.health.picture import PartitionPicture, Picture

_SHOWN_MAX = 5
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
# What brokers have each for themselves.
_OWN_KEY = re.compile(
    r"(?:^|\.)(?:address|port|hosts|listeners?|id|rack|dirs?|file|seeds|roles|voters|advertised\.listeners?)$"
    r"|ssl\.|sasl\.|\.name$|^listener|^zookeeper"
)


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


def check_copies(picture: Picture) -> Iterator[Finding]:
    """Name topics with too few replicas."""
    by_count: dict[int, list[str]] = {}
    for topic, count in _fewest_replicas(picture).items():
        by_count.setdefault(count, []).append(topic)
    if len(picture.brokers) > 1 and 1 in by_count:
        yield Finding(
            Level.WARNING,
            "copies",
            f"only one replica, lost with its broker: {_listed(by_count[1])}",
            "create topics with -r 3, or add replicas: raftka topic alter-replication"
            f" {by_count[1][0] if len(by_count[1]) == 1 else 'TOPIC'} -r 3"
            if picture.is_raftka
            else "create topics with -r 3, or add replicas (kafka-reassign-partitions)",
            "the topic was created with one replica",
        )
    if picture.is_raftka and 2 in by_count:
        yield Finding(
            Level.WARNING,
            "copies",
            f"two replicas, and writes need both: {_listed(by_count[2])}",
            "use one replica, or three: raftka topic alter-replication"
            f" {by_count[2][0] if len(by_count[2]) == 1 else 'TOPIC'} -r 3",
            "a majority of two is two",
        )
    if picture.is_raftka and not picture.lost and len(picture.brokers) == 2:
        yield Finding(
            Level.WARNING,
            "copies",
            "like one broker, two brokers tolerate no failure, and they fail twice as often",
            "run three: a broker with an empty data.dir joins (docs/operations/joining.md)",
            "a majority of two is two",
        )


def check_settings(picture: Picture) -> Iterator[Finding]:
    """Name topics whose settings risk records or writes."""
    caching = [each.name for each in picture.topics if each.has_write_caching]
    if caching:
        yield Finding(
            Level.NOTE,
            "settings",
            f"acks=all is answered before the fsync: {_listed(caching)}",
            "set write.caching=false, unless a power cut of several brokers may cost the newest records",
            "write.caching is true",
        )
    fewest = _fewest_replicas(picture)
    strict = [
        each.name
        for each in picture.topics
        if each.min_isr is not None and 1 < fewest.get(each.name, 0) == each.min_isr
    ]
    if strict and len(picture.brokers) > 2:
        yield Finding(
            Level.NOTE,
            "settings",
            f"acks=all needs every replica, so one broker that is away stops producers: {_listed(strict)}",
            "set min.insync.replicas to one less than the number of replicas",
            "min.insync.replicas is the number of replicas",
        )
    by_numbers: dict[tuple[int, int], list[str]] = {}
    for each in picture.topics:
        if each.min_isr is not None and each.name in fewest and each.min_isr > fewest[each.name]:
            by_numbers.setdefault((each.min_isr, fewest[each.name]), []).append(each.name)
    for (min_isr, count), names in sorted(by_numbers.items()):
        lower = f"{names[0] if len(names) == 1 else 'TOPIC'} --set min.insync.replicas={count // 2 + 1}"
        yield Finding(
            Level.NOTE,
            "settings",
            f"min.insync.replicas is {min_isr}, and acks=all waits for {counted(count, 'replica')}, the most there are:"
            f" {_listed(names)}",
            f"add replicas, or lower it: raftka topic alter-config {lower}; where a topic sets it, its other keys"
            " cannot be changed before",
            "min.insync.replicas is above the number of replicas",
        )
    unclean = [each.name for each in picture.topics if each.has_unclean_elections]
    if unclean:
        yield Finding(
            Level.WARNING,
            "settings",
            f"a replica that lacks acknowledged records may be elected: {_listed(unclean)}",
            "set unclean.leader.election.enable=false",
            "unclean.leader.election.enable is true",
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


def check_configs(picture: Picture) -> Iterator[Finding]:
    """Name keys in which brokers differ that should be equal.

    A value that was set on one broker while it runs is wanted: the other brokers are compared without it.
    """
    values: dict[str, dict[str | None, list[int]]] = {}
    wanted: dict[str, list[int]] = {}
    known = [each for each in picture.brokers if each.configs is not None]
    for broker in known:
        for key, value in (broker.configs or {}).items():
            if key in broker.own_configs:
                wanted.setdefault(key, []).append(broker.node_id)
            elif not _OWN_KEY.search(key):
                values.setdefault(key, {}).setdefault(value, []).append(broker.node_id)
    different = {key: found for key, found in sorted(values.items()) if len(found) > 1}
    for key, found in different.items():
        each = ", ".join(f"{value} on {','.join(map(str, nodes))}" for value, nodes in found.items())
        yield Finding(
            Level.WARNING,
            "config",
            f"brokers differ in {key}: {each}",
            "give all brokers the same value, and restart them",
            "the files, RAFTKA_* variables or flags of the brokers differ",
        )
    if known and not different:
        each = ", ".join(f"{key} on {','.join(map(str, nodes))}" for key, nodes in sorted(wanted.items()))
        but = f", but for what was set on single ones: {each}" if wanted else ""
        yield ok("config", f"the same for all brokers{but}")


def check_versions(picture: Picture) -> Iterator[Finding]:
    """Say that brokers run different versions."""
    by_version: dict[str, list[int]] = {}
    for broker in picture.brokers:
        if broker.version:
            by_version.setdefault(broker.version, []).append(broker.node_id)
    if len(by_version) > 1:
        each = ", ".join(f"{version} on {','.join(map(str, nodes))}" for version, nodes in sorted(by_version.items()))
        yield Finding(
            Level.NOTE,
            "versions",
            f"brokers run different versions: {each}",
            "finish the upgrade: restart the other brokers with the newer version, one after the other"
            " (docs/operations/upgrade.md)",
            "an upgrade is under way, or was not finished",
        )


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
    Rule("Too few replicas", check_copies),
    Rule("Risky settings of topics", check_settings),
    Rule("Unbalanced leaders", check_balance),
    Rule("Different configurations", check_configs),
    Rule("Different versions", check_versions),
    Rule("Features that are not raised", move_rules.check_features),
    Rule("Bounds that are reached", broker_rules.check_bounds),
    Rule("Full disks", broker_rules.check_disks),
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


def _fewest_replicas(picture: Picture) -> dict[str, int]:
    fewest: dict[str, int] = {}
    for each in picture.partitions or ():
        count = len(each.replicas)
        if count < fewest.get(each.topic, count + 1):
            fewest[each.topic] = count
    return fewest


def _names(partitions: Iterable[PartitionPicture]) -> str:
    return _listed([each.name for each in partitions])


def _nodes(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes))


def _who(nodes: list[int]) -> str:
    return f"broker{'s' if len(nodes) > 1 else ''} {_nodes(nodes)} {'do' if len(nodes) > 1 else 'does'}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return ", ".join(names[:_SHOWN_MAX]) + more
