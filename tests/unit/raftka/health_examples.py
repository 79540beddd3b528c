"""Pictures of clusters for the rules of `raftka.health`: at which each rule fires, and at which it only nearly does.

docs/operations/health.md shows the findings of the first kind; `python -m tests.unit.raftka.health_examples` prints
them as that page has them.
"""

from dataclasses import replace

from raftka.health.findings import Finding, Level
from raftka.health.picture import (
    RATE_KEYS,
    THROTTLED_KEYS,
    BoundFill,
    BrokerPicture,
    MemberPicture,
    MovePicture,
    PartitionPicture,
    Picture,
    TopicPicture,
    TransactionPicture,
)
from raftka.health.rules import RULES, Rule, in_order


def broker(node: int, **changes: object) -> BrokerPicture:
    """Return a broker that is well."""
    well = BrokerPicture(
        node,
        kafka=f"10.0.0.{node}:9092",
        answers=True,
        runs=True,
        is_ready=True,
        version="0.1.0",
        configs={"node.id": str(node), "retention.ms": "604800000", "disk.reserve.bytes": "268435456"},
        fills=(BoundFill("the tables of raft0", "bytes", 4_096, 41_943_040, 0, "raftka topic delete"),),
        disk_spare_bytes=90_000_000_000,
        clock_offset=0.4,
        events_lost=700,
        events_span=86_400.0,
        features={"raftka.membership": 1},
        levels={"raftka.membership": 1},
    )
    return replace(well, **changes)  # type: ignore[arg-type]


def partition(topic: str = "orders", number: int = 0, **changes: object) -> PartitionPicture:
    """Return a partition that is well."""
    well = PartitionPicture(topic, number, 1 + number % 3, (1, 2, 3), (1, 2, 3), 2)
    return replace(well, **changes)  # type: ignore[arg-type]


WELL = Picture(
    brokers=(broker(1), broker(2), broker(3)),
    controller=2,
    partitions=tuple(partition(number=number) for number in range(12)),
    topics=(TopicPicture("orders", 2),),
)


def of_brokers(*brokers: BrokerPicture) -> Picture:
    """Return WELL with other brokers in the place of those with the same node id."""
    others = {each.node_id: each for each in (*WELL.brokers, *brokers)}
    return replace(WELL, brokers=tuple(others.values()))


def of_partitions(*partitions: PartitionPicture, topics: tuple[TopicPicture, ...] = (), **changes: object) -> Picture:
    """Return WELL with these partitions, topics and changes."""
    return replace(WELL, partitions=partitions, topics=topics, **changes)  # type: ignore[arg-type]


_LOST = broker(2, answers=False, runs=None, is_ready=None)
_TWO = replace(WELL, brokers=WELL.brokers[:2])


def _filled(**fill: object) -> BrokerPicture:
    bound = BoundFill(
        *("the group table of __consumer_offsets-7", "bytes", 41_000_000, 41_943_040, 0),
        "delete groups that nobody uses",
    )
    return broker(1, fills=(replace(bound, **fill),))  # type: ignore[arg-type]


def moving(**changes: object) -> MovePicture:
    """Return a partition that is being moved and gets further."""
    well = MovePicture("orders", 3, (2, 3, 4), False, "copying", "nodes [4] catch up", 12.0)
    return replace(well, **changes)  # type: ignore[arg-type]


def of_moves(*moves: MovePicture) -> Picture:
    """Return WELL with these moves."""
    return replace(WELL, moves=moves)


def opened(**changes: object) -> TransactionPicture:
    """Return a transaction that hangs."""
    hangs = TransactionPicture("orders", 3, 4_001, 7, 120, 1_800.0, 900.0)
    return replace(hangs, **changes)  # type: ignore[arg-type]


def of_transactions(*transactions: TransactionPicture) -> Picture:
    """Return WELL with these transactions, in partitions that broker 1 leads."""
    return of_brokers(broker(1, transactions=transactions))


_JOINT = moving(state="leaderless", lost_voter_sets=((4, 5, 6),), away=(5, 6), idle_seconds=900.0)
_THROTTLED = TopicPicture("orders", 2, throttles=THROTTLED_KEYS)
_STUCK = moving(waits_for="nodes [4] catch up", idle_seconds=1_260.0)
_AWAY = replace(_STUCK, waits_for="nodes [4] catch up: broker 4 does not answer", away=(4,))


# By the name of the rule. Each picture makes it find something.
FIRES: dict[str, tuple[Picture, ...]] = {
    "Lost brokers": (of_brokers(_LOST), replace(WELL, silent=("10.0.0.9:9092",))),
    "Brokers that hang": (
        of_brokers(replace(_LOST, hangs=True, runs=False)),
        replace(WELL, hanging=("10.0.0.9:9092",)),
    ),
    "Brokers that run and do not serve": (
        of_brokers(broker(2, answers=False, is_ready=False, not_ready="raft0 has no leader")),
        of_brokers(broker(2, is_ready=False, not_ready="orders-0 is damaged: 1-1.log", cure="replace its disk")),
        of_brokers(broker(2, answers=False)),
        of_brokers(broker(2, runs=False, is_ready=None, admin_error="admin port 10.0.0.2:9644: timed out")),
    ),
    "Refused links": (
        of_brokers(broker(2, refused="its data directory is not the one that node 2 had")),
        of_brokers(
            replace(
                _LOST,
                refused="broker 2 came with another data directory than the one that this broker (1) knows",
                refused_cure="bring the original data directory of broker 2 back, and restart broker 2; if it is lost:"
                " raftka broker replace 2",
                refused_age=754.0,
            )
        ),
    ),
    "No controller": (replace(WELL, controller=-1),),
    "Partitions without a leader": (
        replace(of_brokers(_LOST), partitions=(partition(leader=None, replicas=(2,), in_sync=()),)),
        of_partitions(partition(leader=None, in_sync=())),
    ),
    "Under-replicated partitions": (
        replace(of_brokers(_LOST), partitions=(partition(in_sync=(1, 3)),)),
        of_partitions(*(partition(number=number, in_sync=(1, 3)) for number in range(7))),
        of_partitions(partition(in_sync=(1,), target=(1, 2, 4)), partition(number=1)),
    ),
    "Refused writes": (of_partitions(partition(in_sync=(1,))),),
    "Stalled partitions": (
        of_partitions(partition(is_stalled=True)),
        replace(
            of_brokers(_LOST, broker(3, answers=False, runs=None, is_ready=None)),
            partitions=(partition(is_stalled=True),),
        ),
    ),
    "Hanging transactions": (
        of_transactions(opened()),
        of_transactions(opened(topic="__consumer_offsets")),
        of_transactions(*(opened(number=number) for number in range(5))),
    ),
    "Groups without a quorum": (
        of_moves(_JOINT),
        of_moves(*(replace(_JOINT, number=number) for number in range(7))),
        of_moves(replace(_JOINT, lost_voter_sets=((3,),), away=(), retired=(3,))),
        of_partitions(partition(leader=None, replicas=(3,), in_sync=(), retired=(3,))),
        of_partitions(
            *(partition(name, leader=None, in_sync=(), retired=(2, 3)) for name in ("orders", "payments")),
        ),
    ),
    "Moves without progress": (
        of_moves(_STUCK),
        of_moves(_AWAY),
        of_moves(replace(_AWAY, away=(3, 4), waits_for="1 of the 3 new voters answer: brokers 3,4 do not answer")),
        of_moves(replace(_STUCK, is_cancelled=True, state="joint", waits_for="")),
    ),
    "Replicas that cannot leave": (
        of_brokers(broker(2, unleft=(("orders-3", "Input/output error"), ("orders-4", "Input/output error")))),
    ),
    "Throttles left behind": (
        replace(of_brokers(broker(1, throttles=RATE_KEYS)), topics=(_THROTTLED,)),
        replace(WELL, topics=tuple(replace(_THROTTLED, name=f"orders{number}") for number in range(7))),
        of_brokers(broker(1, throttles=RATE_KEYS[:1]), broker(3, throttles=RATE_KEYS[:1])),
    ),
    "Brokers on their way": (
        of_brokers(broker(3, member=MemberPicture("draining", 40.0))),
        of_brokers(broker(3, member=MemberPicture("draining", 8_000.0))),
        of_brokers(broker(3, member=MemberPicture("active", 90.0, is_retired=True))),
        of_brokers(broker(3, member=MemberPicture("decommissioning", 90.0, 2.0, replicas=12))),
        of_brokers(broker(3, member=MemberPicture("decommissioning", 900.0, 700.0, replicas=1))),
        of_brokers(broker(3, member=MemberPicture("decommissioning", 900.0, 700.0))),
        of_brokers(broker(3, member=MemberPicture("decommissioning", 900.0, 700.0, raft0="learner"))),
    ),
    "Voters of raft0": (of_brokers(*(broker(node, member=MemberPicture("active")) for node in (1, 2, 3, 4))),),
    "Too few replicas": (
        of_partitions(partition(replicas=(1,), in_sync=(1,))),
        of_partitions(partition(replicas=(1,), in_sync=(1,)), is_raftka=False),
        of_partitions(partition(replicas=(1, 2), in_sync=(1, 2))),
        _TWO,
    ),
    "Risky settings of topics": (
        replace(WELL, topics=(TopicPicture("orders", 2, has_write_caching=True),)),
        replace(WELL, topics=(TopicPicture("orders", 3),)),
        replace(WELL, topics=(TopicPicture("orders", 5),)),
        replace(WELL, topics=(TopicPicture("orders", 2, has_unclean_elections=True),), is_raftka=False),
    ),
    "Unbalanced leaders": (of_partitions(*(partition(number=3 * number) for number in range(12))),),
    "Different configurations": (of_brokers(broker(3, configs={"node.id": "3", "retention.ms": "86400000"})),),
    "Different versions": (of_brokers(broker(3, version="0.2.0")),),
    "Features that are not raised": (of_brokers(*(broker(node, levels={}) for node in (1, 2, 3))),),
    "Bounds that are reached": (
        of_brokers(_filled()),
        of_brokers(_filled(refused=3)),
        of_brokers(_filled(used=41_943_040)),
    ),
    "Full disks": (
        of_brokers(broker(2, disk_spare_bytes=-120_000_000)),
        of_brokers(broker(2, disk_spare_bytes=120_000_000)),
        of_brokers(broker(2, disk_spare_bytes=None, is_disk_short=True)),
    ),
    "Logs that are not compacted": (of_brokers(broker(2, uncompacted=("state-3", "state-0"))),),
    "Tombstones that stay": (
        of_brokers(broker(1, held_deletes=((3, 2, 7_260.0),)), broker(2, held_deletes=((3, 1, 900.0),))),
        of_brokers(broker(1, held_deletes=((3, 2, 7_260.0),)), broker(3, answers=False, runs=None, is_ready=None)),
    ),
    "Clocks that differ": (of_brokers(broker(2, clock_offset=-7.0)),),
    "Lost events": (of_brokers(broker(2, events_lost=3_100, events_span=780.0)),),
}

# At none of these the rule finds anything, though something is unlike WELL, or is not known.
QUIET: dict[str, tuple[Picture, ...]] = {
    "Lost brokers": (
        of_brokers(broker(2, answers=None)),
        of_brokers(broker(2, answers=False, runs=True)),
        of_brokers(replace(_LOST, hangs=True)),
        of_brokers(replace(_LOST, refused="another data directory")),
        of_brokers(replace(_LOST, member=MemberPicture("active", is_retired=True))),
    ),
    "Brokers that hang": (of_brokers(_LOST), of_brokers(broker(2, answers=False, hangs=True, runs=True))),
    "Brokers that run and do not serve": (
        of_brokers(_LOST),
        of_brokers(broker(2, answers=None, runs=None, is_ready=None)),
        of_brokers(broker(2, answers=False, runs=False, is_ready=None, admin_error="admin port: timed out")),
    ),
    "Refused links": (of_brokers(_LOST),),
    "No controller": (replace(WELL, controller=None), replace(WELL, controller=0)),
    "Partitions without a leader": (
        replace(WELL, partitions=None),
        of_partitions(partition(leader=0)),
        of_partitions(partition(leader=None, replicas=(3,), in_sync=(), retired=(3,))),
    ),
    "Under-replicated partitions": (
        replace(WELL, partitions=None),
        of_partitions(partition(leader=None, in_sync=())),
        of_partitions(partition(replicas=(1,), in_sync=(1,))),
        of_partitions(partition(replicas=(1,), in_sync=(1,), target=(2,))),
        of_partitions(partition(target=(1, 2, 4))),
        of_partitions(partition(in_sync=(1, 2, 4), target=(1, 2, 4))),
        of_partitions(partition(in_sync=(4,), target=(4,))),
    ),
    "Refused writes": (
        of_partitions(partition(in_sync=(1, 3))),
        of_partitions(partition(in_sync=(1,), min_isr=None)),
        of_partitions(partition(replicas=(1,), in_sync=(1,))),
        of_partitions(partition(leader=None, in_sync=())),
    ),
    "Stalled partitions": (
        replace(WELL, partitions=None),
        of_partitions(partition(leader=None, in_sync=(), is_stalled=True)),
        of_partitions(partition(number=3, is_stalled=True), moves=(_JOINT,)),
    ),
    "Hanging transactions": (of_transactions(opened(open_seconds=959.0)), of_transactions(opened(max_seconds=1_800.0))),
    "Groups without a quorum": (
        of_moves(moving()),
        of_moves(moving(away=(4,))),
        of_partitions(partition(retired=(3,))),
        of_partitions(partition(leader=None, in_sync=(), retired=(3,))),
    ),
    "Moves without progress": (
        of_moves(replace(_STUCK, idle_seconds=599.0)),
        of_moves(replace(_STUCK, idle_seconds=None)),
        of_moves(_JOINT),
    ),
    "Replicas that cannot leave": (of_brokers(broker(2, unleft=())),),
    "Throttles left behind": (
        replace(WELL, topics=(_THROTTLED,), moves=(moving(),)),
        replace(WELL, topics=(_THROTTLED,), moves=None),
        replace(of_brokers(broker(1, throttles=RATE_KEYS)), moves=None),
    ),
    "Brokers on their way": (of_brokers(broker(3, member=MemberPicture("active", 8_000.0))),),
    "Voters of raft0": (
        of_brokers(*(broker(node, member=MemberPicture("active")) for node in (1, 2, 3))),
        replace(_TWO, brokers=tuple(replace(each, member=MemberPicture("active")) for each in _TWO.brokers)),
        of_brokers(
            *(broker(node, member=MemberPicture("active")) for node in (1, 2, 3)),
            broker(4, member=MemberPicture("active", raft0="learner")),
        ),
    ),
    "Too few replicas": (
        replace(of_partitions(partition(replicas=(1,), in_sync=(1,))), brokers=WELL.brokers[:1]),
        of_partitions(partition(replicas=(1, 2), in_sync=(1, 2)), is_raftka=False),
        replace(_TWO, is_raftka=False),
        replace(_TWO, brokers=(broker(1), _LOST)),
    ),
    "Risky settings of topics": (
        replace(WELL, topics=(TopicPicture("orders", None),)),
        replace(WELL, topics=(TopicPicture("gone", 3),)),
        of_partitions(partition(replicas=(1,), in_sync=(1,)), topics=(TopicPicture("orders", 1),)),
        replace(WELL, partitions=None, topics=(TopicPicture("orders", 5),)),
    ),
    "Unbalanced leaders": (
        of_partitions(*(partition(number=3 * number) for number in range(11))),
        replace(of_partitions(*(partition(number=3 * number) for number in range(12))), brokers=WELL.brokers[:1]),
    ),
    "Different configurations": (
        of_brokers(*(broker(node, configs={"node.id": str(node), "data.dir": f"/data/{node}"}) for node in (1, 2, 3))),
        of_brokers(broker(2, configs=None)),
        of_brokers(
            broker(3, configs={"node.id": "3", "retention.ms": "86400000"}, own_configs=frozenset({"retention.ms"}))
        ),
    ),
    "Different versions": (of_brokers(broker(2, version="")),),
    "Features that are not raised": (
        of_brokers(broker(2, features={}), broker(1, levels={}), broker(3, levels={})),
        of_brokers(broker(2, levels={})),
        of_brokers(broker(1, levels={}), broker(2, features=None, levels=None), broker(3, levels={})),
    ),
    "Bounds that are reached": (of_brokers(_filled(used=37_000_000)),),
    "Full disks": (of_brokers(broker(2, disk_spare_bytes=None)), of_brokers(broker(2, configs=None))),
    "Logs that are not compacted": (of_brokers(broker(2)),),
    "Tombstones that stay": (of_brokers(broker(1, held_deletes=((3, 2, 599.0),))),),
    "Clocks that differ": (of_brokers(broker(2, clock_offset=2.5)), of_brokers(broker(2, clock_offset=None))),
    "Lost events": (
        of_brokers(broker(2, events_lost=0, events_span=60.0)),
        of_brokers(broker(2, events_lost=9, events_span=None)),
        of_brokers(broker(2, events_lost=9, events_span=3_600.0)),
    ),
}


def found(rule: Rule, picture: Picture) -> list[Finding]:
    """Return what one rule finds wrong."""
    return [each for each in rule.check(in_order(picture)) if each.level is not Level.OK]


def shown(rule: Rule) -> str:
    """Return the findings at FIRES as docs/operations/health.md has them."""
    lines = []
    for picture in FIRES[rule.name]:
        for each in found(rule, picture):
            lines += [f"{each.level:<8} {each.what}: {each.words}", f"{'':9}cause: {each.cause}"]
            lines += [f"{'':9}cure: {each.cure}"]
    return "\n".join(lines)


if __name__ == "__main__":
    for each_rule in RULES:
        print(f"## {each_rule.name}\n\n```text\n{shown(each_rule)}\n```\n")
