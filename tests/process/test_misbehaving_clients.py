"""Clients that are wrong, greedy or idle: each gets its code or is closed, a group beside them reads on, and the broker
stays small.

The bounds on memory are generous: what a broker would keep of each of so many requests would break them.
"""

import resource
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from cluster.groups.offsets_topic import OFFSETS_TOPIC
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.codec import encode_request
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
)
from kafka_api.protocol.wire import REQUEST_ELEMENTS_MAX
from tests.process.broker_processes import BrokerCluster, BrokerProcess, ClusterMaker, eventually
from tests.process.bystanders import a_group_beside
from tests.process.group_members import GROUP_OPTIONS, fill
from tests.process.kafka_topics import create_topic
from tests.process.wire_socket import IN_FLIGHT, WireSocket

pytestmark = [pytest.mark.process, pytest.mark.slow]

KIB, MIB = 1024, 1024 * 1024
LARGE, LARGE_PARTITIONS = "large", 8
# What a broker gives, at most, to a connection that has been served once and is idle (`make bench ARGS=connections`).
BYTES_PER_CONNECTION = 30 * KIB
# What a broker's memory moves by itself: caches that fill, pieces that the allocator keeps.
SLACK = 60 * MIB
# `GroupOptions.member_bytes_max` and `KafkaOptions.fetch_memory_bytes`.
MEMBERS_MAX = FETCHES_MAX = 64 * MIB


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def target(shared_clusters: ClusterMaker) -> Iterator[BrokerCluster]:
    """A cluster of one, whose groups' topic is there; 64 MB lie in another topic."""
    # What is written beside the test fills no read cache: memory is that of the clients under test.
    cluster = shared_clusters(1, **{**GROUP_OPTIONS, "read.cache.bytes": 0})
    cluster.start()
    create_topic(cluster, LARGE, LARGE_PARTITIONS)
    fill(cluster, LARGE, ["x" * 500_000] * 128, LARGE_PARTITIONS)
    with a_group_beside(cluster, "first"):
        eventually("the groups' topic", lambda: cluster.partition(OFFSETS_TOPIC, 0))
    yield cluster
    cluster.stop()


@contextmanager
def undisturbed(cluster: BrokerCluster, name: str, growth_max: int) -> Iterator[BrokerProcess]:
    """While the block runs a group reads on; the broker grows by no more than this, and says little about it."""
    broker = cluster[1]
    with a_group_beside(cluster, name) as group:
        before, lines, read = broker.rss_bytes(), len(broker.log_text().splitlines()), group.read()
        yield broker
        grown = broker.rss_bytes() - before
        assert grown < growth_max, f"{grown // KIB} KiB more"
        eventually("the group reads on", lambda: group.read() > read)
    assert broker.is_running
    log = broker.log_text().splitlines()[lines:]
    assert len(log) < 200, broker.log_tail()
    assert not any("Traceback" in line for line in log), broker.log_tail()


# -- connections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2_000, pytest.param(9_900, marks=pytest.mark.long)])
def test_clients_that_were_served_and_are_idle_cost_little(target: BrokerCluster, count: int):
    with undisturbed(target, f"beside-{count}", count * BYTES_PER_CONNECTION + SLACK) as broker:
        _open_idle(broker, count)
        # What they took is there for the next ones.
        before = broker.rss_bytes()
        _open_idle(broker, count)
        assert broker.rss_bytes() - before < SLACK


def _open_idle(broker: BrokerProcess, count: int) -> None:
    before = broker.rss_bytes()
    with ExitStack() as stack:
        # Few source ports are left in so short a time, so every thousand connections come from another address.
        clients = [stack.enter_context(WireSocket(broker, 100 + number // 1_000)) for number in range(count)]
        for client in clients:
            assert client.is_served()
        assert broker.rss_bytes() - before < count * BYTES_PER_CONNECTION + SLACK
        assert all(client.is_served() for client in clients[:: count // 100])
        assert not any(client.is_ended() for client in clients)


class Drips(threading.Thread):
    """Requests that never become whole: some are only announced, of the others a byte comes now and then."""

    def __init__(self, broker: BrokerProcess, count: int) -> None:
        super().__init__()
        self.whole = b"".join(encode_request(ApiKey.JOIN_GROUP, 5, 1, "x", join_request("g", bytes(3 * MIB))))
        self.dripping = [WireSocket(broker) for _ in range(count)]
        self.silent = [WireSocket(broker) for _ in range(count)]
        for client in self.silent:
            client.socket.sendall(struct.pack(">i", 99 * MIB) + bytes(1000))
        self._is_over = threading.Event()
        self.start()

    def run(self) -> None:
        for position in range(0, len(self.whole), 7):
            for client in self.dripping:
                try:
                    client.socket.sendall(self.whole[position : position + 7])
                except OSError:
                    continue  # Closed: that is what it gets.
            if self._is_over.wait(0.1):
                return

    def left(self) -> int:
        return sum(not client.is_ended() for client in self.dripping + self.silent)

    def stop(self) -> None:
        self._is_over.set()
        self.join()
        for client in self.dripping + self.silent:
            client.close()


@pytest.fixture(scope="module")
def drips(target: BrokerCluster) -> Iterator[Drips]:
    """Begin before the other tests and drip on beside them: it takes half a minute until a broker has had enough."""
    made = Drips(target[1], 50)
    yield made
    made.stop()


def test_requests_that_are_only_announced_take_no_memory(target: BrokerCluster, drips: Drips):
    with undisturbed(target, "beside-drips", SLACK), ExitStack() as stack:
        for _ in range(200):
            client = stack.enter_context(WireSocket(target[1]))
            client.socket.sendall(struct.pack(">i", 99 * MIB) + bytes(1000))
        with WireSocket(target[1]) as client:
            assert client.is_served()


# -- fetches ----------------------------------------------------------------------------------------------------------


def fetch_everything() -> FetchRequest:
    asked = [
        FetchRequest.FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=2**31 - 1)
        for number in range(LARGE_PARTITIONS)
    ]
    topic = FetchRequest.FetchTopic(topic=LARGE, partitions=asked)
    return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=2**31 - 1, topics=[topic])


def test_fetches_for_everything_by_many_clients_at_once_stay_within_the_memory_for_fetches(target: BrokerCluster):
    with undisturbed(target, "beside-fetches", FETCHES_MAX + 2 * SLACK) as broker, ExitStack() as stack:
        clients = [stack.enter_context(WireSocket(broker)) for _ in range(60)]
        for client in clients:
            client.send(ApiKey.FETCH, 12, *[fetch_everything() for _ in range(5)])
        received = 0
        for _ in range(3):
            for client in clients:
                # One whole batch comes in any case. What else was asked for is never taken.
                received += len(client.receive_frame())
        assert received > 3 * len(clients) * 500_000


# -- groups -----------------------------------------------------------------------------------------------------------


def join_request(group: str, metadata: bytes = b"", member_id: str = "", session_ms: int = 60_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=session_ms,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


STORM_MS, GHOST_MS = 10_000, 2_000
# Metadata of members: both are requests that are received without waiting for memory, and where there is no room for
# the small one there is none for the large one.
SMALL_MEMBER, LARGE_MEMBER = 10_000, 15_000


def until_there_is_room(client: WireSocket) -> None:
    """Ids and members of a storm are forgotten, and new ones are taken."""
    another = join_request("after-the-storm", bytes(LARGE_MEMBER), session_ms=GHOST_MS)

    def is_taken() -> bool:
        return bool(client.call(ApiKey.JOIN_GROUP, 4, another).error_code == ErrorCode.MEMBER_ID_REQUIRED)

    eventually("somebody new may join", is_taken)


def test_a_storm_of_joins_to_ever_new_groups_ends_where_the_memory_for_members_does(target: BrokerCluster):
    with undisturbed(target, "beside-groups", MEMBERS_MAX + SLACK) as broker, WireSocket(broker) as client:
        asked = [join_request(f"new-{number}", session_ms=STORM_MS) for number in range(40_000)]
        codes = [answer.error_code for answer in client.call_all(ApiKey.JOIN_GROUP, 4, asked)]
        assert set(codes) == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}
        until_there_is_room(client)


def test_a_storm_of_ever_new_members_of_one_group_takes_bounded_memory(target: BrokerCluster):
    """They never use the ids that they are given."""
    with undisturbed(target, "beside-members", MEMBERS_MAX + SLACK) as broker, WireSocket(broker) as client:
        asked = [join_request("crowd", bytes(100), session_ms=STORM_MS)] * 30_000
        answers = client.call_all(ApiKey.JOIN_GROUP, 4, asked)
        assert {answer.error_code for answer in answers} == {ErrorCode.MEMBER_ID_REQUIRED}
        assert len({answer.member_id for answer in answers}) == len(asked)


def test_members_of_old_clients_that_never_come_back_take_bounded_memory(target: BrokerCluster):
    """They need no id first, and each of these connections has as many of them wait as it may."""
    with undisturbed(target, "beside-ghosts", 4 * MEMBERS_MAX) as broker, ExitStack() as stack:
        ghost = join_request("ghosts", bytes(SMALL_MEMBER), session_ms=GHOST_MS)
        for _ in range(120):
            client = stack.enter_context(WireSocket(broker))
            client.send(ApiKey.JOIN_GROUP, 3, *[ghost] * IN_FLIGHT)
        asking = stack.enter_context(WireSocket(broker))
        another = join_request("after-the-ghosts", bytes(LARGE_MEMBER), session_ms=GHOST_MS)

        def is_refused() -> bool:
            return bool(asking.call(ApiKey.JOIN_GROUP, 4, another).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED)

        eventually("there is no room for more", is_refused)
        until_there_is_room(asking)


def test_stale_members_in_a_loop_are_told_so_every_time(target: BrokerCluster):
    with undisturbed(target, "beside-stale", SLACK) as broker, WireSocket(broker) as client:
        told = client.call(ApiKey.JOIN_GROUP, 4, join_request("stale")).member_id
        joined = client.call(ApiKey.JOIN_GROUP, 4, join_request("stale", member_id=told))
        me, stale = joined.member_id, joined.generation_id - 1
        given = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=me, assignment=b"all")]
        sync = SyncGroupRequest(group_id="stale", generation_id=joined.generation_id, member_id=me, assignments=given)
        assert client.call(ApiKey.SYNC_GROUP, 3, sync).error_code == 0
        rounds = 3_000
        for member_id, code in ((me, ErrorCode.ILLEGAL_GENERATION), ("stranger", ErrorCode.UNKNOWN_MEMBER_ID)):
            name: dict[str, Any] = {"group_id": "stale", "generation_id": stale, "member_id": member_id}
            beats = client.call_all(ApiKey.HEARTBEAT, 3, [HeartbeatRequest(**name)] * rounds)
            syncs = client.call_all(ApiKey.SYNC_GROUP, 3, [SyncGroupRequest(**name, assignments=given)] * rounds)
            commit = commit_request("stale", LARGE, range(1), member_id=member_id, generation=stale)
            commits = client.call_all(ApiKey.OFFSET_COMMIT, 7, [commit] * rounds)
            assert {each.error_code for each in beats} == {each.error_code for each in syncs} == {code}
            assert set().union(*map(commit_codes, commits)) == {code}


# -- commits ----------------------------------------------------------------------------------------------------------


def commit_request(
    group: str, topic: str, partitions: range, *, metadata: str = "", member_id: str = "", generation: int = -1
) -> OffsetCommitRequest:
    asked = [
        OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=1, committed_metadata=metadata
        )
        for number in partitions
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=asked)],
    )


def commit_codes(answer: OffsetCommitResponse) -> set[int]:
    return {each.error_code for topic in answer.topics for each in topic.partitions}


def test_commits_that_say_too_much_are_refused_and_not_kept(target: BrokerCluster):
    with undisturbed(target, "beside-notes", SLACK) as broker, WireSocket(broker) as client:
        asked = commit_request("notes", LARGE, range(1), metadata="x" * 8_000)
        for _ in range(2_000):
            assert commit_codes(client.call(ApiKey.OFFSET_COMMIT, 7, asked)) == {ErrorCode.OFFSET_METADATA_TOO_LARGE}


# As many as a request may list, its topic counted.
COMMITTED = REQUEST_ELEMENTS_MAX - 1


def test_commits_to_thousands_of_partitions_that_there_are_not_are_refused_one_by_one(target: BrokerCluster):
    with undisturbed(target, "beside-unknown", SLACK) as broker, WireSocket(broker) as client:
        for topic in (LARGE, "no-such-topic"):
            asked = commit_request("unknown", topic, range(LARGE_PARTITIONS, LARGE_PARTITIONS + COMMITTED))
            for _ in range(10):
                answer = client.call(ApiKey.OFFSET_COMMIT, 7, asked)
                assert sum(len(each.partitions) for each in answer.topics) == COMMITTED
                assert commit_codes(answer) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


# -- at the end -------------------------------------------------------------------------------------------------------


def test_who_drips_a_request_is_closed_in_the_end(drips: Drips):
    eventually(lambda: f"all are closed, {drips.left()} are left", lambda: drips.left() == 0)
