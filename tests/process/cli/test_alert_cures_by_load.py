"""A disk, a bound, descriptors, the loop or a consumer of a dev cluster gets into trouble; the alert's cure is typed.

What no test makes in seconds is at the end: there the cures are typed on a cluster that is well.
"""

import json
import re
import time
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest
from confluent_kafka import Producer

from tests.process.acked_log import quiet_logger
from tests.process.alert_cures import NODES, SECONDS, Cures, Operator, of_alerts
from tests.process.broker_processes import eventually
from tests.process.hostile_frames import half_open

pytestmark = pytest.mark.process

# A follower's requests fill what it may hold of one partition quickly.
OPTIONS = {
    "raft_append_buffer_node_max_bytes": 1 << 20,
    "log_retention_check_interval_ms": 200,
    "group_initial_rebalance_delay_ms": 200,
}
SPREAD = 12
TOPICS = (
    "large -p 1 -r 3 -c segment.bytes=1048576",
    f"spread -p {SPREAD} -r 3",
    "single -p 3 -r 1",
    "orders -p 1 -r 3",
)
RUNS = r"broker \d runs \(pid \d+\)"
TOO_LATE_SECONDS = 1.3
FEW_FILES = 256
GIB = 1 << 30


class Growth:
    """What a counter of a broker has risen by since this was made."""

    def __init__(self, operator: Operator, name: str, node: int, labels: str = "") -> None:
        self._read = lambda: sum(operator.values(name, node, labels=labels))
        self._before = self._read()

    def __call__(self) -> float:
        return self._read() - self._before


@of_alerts("RaftkaDiskHangs+RaftkaDiskStalls+RaftkaRefusedByBound+RaftkaBoundNearlyReached")
def test_a_disk_that_hangs_and_what_waits_for_it_is_named_with_its_cure(operator: Operator, cures: Cures) -> None:
    buffers = 'what="append requests for the followers here"'

    def is_nearly_full() -> bool:
        used = sum(operator.values("raftka_bound_used", 3, labels=buffers))
        return used > 0.9 * sum(operator.values("raftka_bound_max", 3, labels=buffers))

    with operator.with_hang_file(3) as hangs:
        operator.wait_well()
        stalls = Growth(operator, "raftka_raft_append_stalls_total", 3)
        refusals = Growth(operator, "raftka_bound_refusals_total", 3, buffers)
        producer = Producer({"bootstrap.servers": operator.state.bootstrap, "linger.ms": 0, "logger": quiet_logger()})
        hangs.touch()
        # The followers of a broker may hold an eighth of the bound of one partition: each gets one such record.
        for partition in range(SPREAD):
            producer.produce("spread", b"x" * 125_000, partition=partition)
        for what, holds in (
            ("the disk is in doubt", lambda: operator.values("raftka_disk_in_doubt", 3) == [1]),
            ("a stall is counted", lambda: stalls() > 0),
            ("the bound is nearly reached", is_nearly_full),
            ("requests are refused", lambda: refusals() > 0),
        ):
            eventually(lambda what=what: f"{what}\n{operator.log(3)}", holds, SECONDS)
        cures.type("raftka doctor", "broker 3: not ready: the disk hangs", "append requests .* refused", code=1)
        cures.type("raftka doctor machine", "fsync: .*: median")
        hangs.unlink()
        eventually("the disk is not in doubt", lambda: operator.values("raftka_disk_in_doubt", 3) == [0], SECONDS)
        eventually("the bound has room", lambda: not is_nearly_full(), SECONDS)
        assert producer.flush(SECONDS) == 0
        operator.wait_well()
        stalls = Growth(operator, "raftka_raft_append_stalls_total", 3)
        operator.type("raftka produce orders", stdin="y\n")
        assert stalls() == 0


@of_alerts("RaftkaDiskFull+RaftkaDiskSpaceLow")
def test_a_smaller_retention_frees_the_disk_that_is_below_its_reserve(operator: Operator, cures: Cures) -> None:
    def spare() -> float:
        return sum(operator.values("raftka_disk_spare_bytes", 2))

    def size() -> float:
        return sum(operator.values("raftka_topic_size_bytes", 2, labels='topic="large"'))

    operator.type("raftka produce large", stdin=("z" * 100_000 + "\n") * 100)
    # Two of three replicas acknowledge, and a broker below its reserve takes nothing more of what it lacks.
    eventually("broker 2 has its replica of it", lambda: size() > 9_000_000, SECONDS)
    file = operator.folder.node_path(2) / "broker.toml"
    before = file.read_text()
    # What this machine has free is not ours to fill: the reserve is larger than any disk here.
    file.write_text(f"{before}\n'disk.reserve.bytes' = {1024 * GIB}\n")
    try:
        operator.type("raftka dev restart 2")
        eventually("the disk is below its reserve", lambda: spare() < 0, SECONDS)
        cures.type("raftka doctor", r"broker 2: its disk is below disk.reserve.bytes by [\d,]+ MB", code=1)
        grown = size()
        command = "raftka topic alter-config TOPIC --set retention.bytes=BYTES"
        cures.type(command, "changed large", TOPIC="large", BYTES=1 << 20)
        eventually("the topic is smaller", lambda: size() < grown / 2, SECONDS)
    finally:
        file.write_text(before)
        operator.type("raftka dev restart 2")
    eventually("there is room", lambda: spare() > 0, SECONDS)


@of_alerts("RaftkaLoopLag+RaftkaSlowProduce")
def test_brokers_that_stand_still_shortly_are_slow_and_the_doctor_names_load_and_disk(
    operator: Operator, cures: Cures
) -> None:
    slow = [
        (
            Growth(operator, "raftka_kafka_request_seconds_count", node, 'api="Produce"'),
            Growth(operator, "raftka_kafka_request_seconds_bucket", node, 'api="Produce",le="1.0"'),
        )
        for node in NODES
    ]
    with operator.typing("raftka produce spread -p 0") as records:
        records.write("soon\n")
        records.flush()
        eventually("the producer writes", lambda: sum(all_() for all_, _ in slow) > 0, SECONDS)
        operator.freeze(*NODES[1:])
        records.write("late\n")
        records.flush()
        time.sleep(TOO_LATE_SECONDS)  # So long the fault lasts.
        operator.wake(*NODES[1:])
        eventually("a request took more than a second", lambda: any(all_() > quick() for all_, quick in slow), SECONDS)
    assert max(operator.values("raftka_loop_lag_max_seconds", 2)) > 0.15
    operator.wait_no_problem()
    cures.type("raftka doctor", "fsync: .*: median", "balance")


@of_alerts("RaftkaFailedReplicas")
def test_a_replica_whose_files_are_gone_works_again_after_a_restart(operator: Operator, cures: Cures) -> None:
    def failed() -> float:
        return sum(operator.values("raftka_failed_replicas", 3))

    groups = operator.folder.node_path(3) / "data" / "groups"
    place = max(groups.iterdir(), key=lambda group: sum(file.stat().st_size for file in group.iterdir()))
    away = place.with_name("away")
    place.rename(away)
    try:
        with operator.typing("raftka produce large") as records:
            records.write(("w" * 100_000 + "\n") * 40)
            records.flush()
            eventually("a replica has failed", lambda: failed() > 0, SECONDS)
        cures.type("raftka doctor", "broker 3: not ready: large-0 has stopped: .*No such file", code=1)
    finally:
        away.rename(place)
    cures.type("raftka dev restart N", RUNS, N=3)
    eventually("no replica has failed", lambda: failed() == 0, SECONDS)


@of_alerts("RaftkaGroupLagGrows")
def test_the_lag_of_a_group_is_seen_and_ends_with_its_consumer(operator: Operator, cures: Cures) -> None:
    def lag() -> float:
        return max(operator.values("raftka_group_lag_records", labels='group="billing"'), default=0)

    operator.type("raftka produce orders", stdin="more\n" * 12_001)
    operator.type("raftka consume orders -g billing -o start -n 1")
    eventually("the group is behind", lambda: lag() > 10_000, SECONDS)
    cures.type("raftka group list", r"billing +Empty")
    cures.type("raftka group describe GROUP", r"lag: +12\d\d\d", r"orders +0 +1 ", GROUP="billing")
    operator.type("raftka consume orders -g billing -e")
    eventually("the group has caught up", lambda: lag() == 0, SECONDS)


@of_alerts("RaftkaGroupLagUnknown")
def test_a_group_s_lag_is_known_again_once_the_broker_of_its_partition_is_started(
    operator: Operator, cures: Cures
) -> None:
    def unknown() -> list[float]:
        return operator.values("raftka_group_lag_unknown_partitions", labels='group="readers"')

    # A group has a lag only where it has committed, and a producer without keys stays with one partition for a while.
    for each in json.loads(operator.type("raftka partition list single -f json")):
        if each["leader"] == 2:
            operator.type(f"raftka produce single -p {each['partition']}", stdin="one\n" * 60)
    operator.type("raftka consume single -g readers -o start -n 60")
    eventually("the lag is known", lambda: unknown() == [0], SECONDS)
    operator.type("raftka dev kill 2")
    eventually("a lag is not known", lambda: max(unknown(), default=0) > 0, SECONDS)
    cures.type("raftka partition list", r"single +\d +- +2 .* offline")
    cures.type("raftka dev restart N", RUNS, N=2)
    eventually("the lag is known again", lambda: unknown() == [0], SECONDS)


def descriptors_refused(admin: HTTPConnection) -> float:
    admin.request("GET", "/metrics")
    (value,) = re.findall(r"(?m)^raftka_descriptors_refused_total (\S+)$", admin.getresponse().read().decode())
    return float(value)


@of_alerts("RaftkaConnectionsRefused+RaftkaDescriptorsLow+RaftkaDescriptorsRefused")
def test_a_broker_with_few_open_files_takes_more_after_a_restart_with_a_higher_limit(
    operator: Operator, cures: Cures
) -> None:
    (partition,) = json.loads(operator.type("raftka partition list large -f json"))
    # A follower needs no new connection to have something to write.
    node = next(each for each in NODES if each != partition["leader"])

    def share() -> float:
        return sum(operator.values("process_open_fds", node)) / sum(operator.values("process_max_fds", node))

    operator.restart_with_few_files(node, FEW_FILES)
    refused = Growth(operator, "raftka_kafka_connections_refused_total", node)
    written = Growth(operator, "raftka_topic_records_in_total", partition["leader"], 'topic="large"')
    host, _, port = operator.state.broker(node).addresses.kafka.rpartition(":")
    with ExitStack() as stack:
        records = stack.enter_context(operator.typing("raftka produce large"))
        records.write("first\n")
        records.flush()
        eventually("the producer writes", lambda: written() > 0, SECONDS)
        for _ in range(FEW_FILES // 2 + 10):
            stack.enter_context(half_open(host, int(port)))
        eventually("connections are refused", lambda: refused() > 0, SECONDS)
        few = operator.values("raftka_kafka_connections_max", node)
        # It is asked on a connection that it has: it can take no more of them.
        admin = stack.enter_context(closing(HTTPConnection(operator.admin(node), timeout=10)))
        before = descriptors_refused(admin)
        operator.leave_few_descriptors(node)
        eventually("descriptors are low", lambda: share() > 0.9, SECONDS)
        operator.leave_no_descriptor(node)
        records.write(("v" * 100_000 + "\n") * 100)
        records.flush()
        eventually("the kernel refuses files", lambda: descriptors_refused(admin) > before, SECONDS)
    cures.type("raftka doctor machine", "open files: ")
    cures.type("raftka dev restart N", RUNS, N=node)
    assert operator.values("raftka_kafka_connections_max", node) > few
    assert share() < 0.9
    refused = Growth(operator, "raftka_descriptors_refused_total", node)
    operator.type("raftka produce large", stdin=("v" * 100_000 + "\n") * 40)
    operator.wait_well()
    assert refused() == 0


# -- what is not made here ----------------------------------------------------------------------------------------------

# Pages have the commands; what they say of a cluster that is well.
SAYS = {
    "raftka doctor": (
        *("brokers: 1, 2, 3 answer", "leaders: every partition has one", "replicas: all in sync"),
        *("balance: ", "clock: ", "its clock agrees with the clock of this machine"),
    ),
    "raftka doctor machine": ("fsync: .*: median", "open files: ", "disk room: "),
    "raftka dev logs N -n 1000": (r"(?m)^1 \| .* INFO ",),
}


@of_alerts(
    *("RaftkaSlowDisk", "RaftkaElectionStorm", "RaftkaServerErrors", "RaftkaDamagedLink", "RaftkaDamagedSnapshots"),
    *("RaftkaSnapshotsRefused", "RaftkaClockOff", "RaftkaTransactionHangs"),
)
def test_the_cure_of_an_alert_that_is_not_made_here_is_typed(operator: Operator, cures: Cures) -> None:
    operator.wait_no_problem()
    for _, command in sorted(cures.left):
        cures.type(command, *SAYS[command], N=1)
