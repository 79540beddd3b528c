"""Clusters that are founded at levels of several features: whole nodes, from the founding to a level that is lowered."""

import asyncio
import logging

import msgspec
import pytest

from cluster.admin_messages import RegisterBrokerRequest, UpdateFeatureRequest
from cluster.errors import FeatureUpdateError, PermanentStartupError
from cluster.founding_words import FOUND, AnyWord, ClusterRecord, FoundReply, Seed, SeedWord
from model.features import (
    COMPACTION,
    GROUP_VERSION,
    KNOWN,
    MEMBERSHIP,
    OFFERED,
    TRANSACTION_VERSION,
    UNSTABLE,
    LevelRange,
    told_features,
)
from model.ids import NodeId
from tests.feature_levels import LIVING
from tests.unit.cluster.cluster_nodes import Cluster, cluster_of, run, until

FORMER = {MEMBERSHIP: 1}
TRANSACTIONS = {MEMBERSHIP: 1, TRANSACTION_VERSION: 2}
ALL = TRANSACTIONS | {COMPACTION: 1}


def up_to(level):
    return {**LIVING, TRANSACTION_VERSION: LevelRange(0, level)}


def in_force(cluster):
    return [node.controller.features.all() for node in cluster.nodes.values()]


def formats(cluster):
    return [msgspec.json.decode(durable["node/directory"])["format_version"] for durable in cluster.durable.values()]


async def change(cluster, level, *, name=TRANSACTION_VERSION, is_lowering=False, validate_only=False):
    await until(cluster.has_controller)
    request = UpdateFeatureRequest(name, level, validate_only, 5.0, is_lowering)
    return await next(iter(cluster.nodes.values())).admin.update_feature(request)


async def registered_again(cluster):
    """Have raft0's leader take a registration that is new to it."""
    leader = cluster.controller
    record = leader.controller.members.get(NodeId(1))
    moved = msgspec.structs.replace(record, kafka_port=record.kafka_port + 1)
    await leader.admin.register_broker(RegisterBrokerRequest(moved, 5.0))
    assert leader.controller.members.get(NodeId(1)) == moved


# -- what this version offers -------------------------------------------------------------------------------------


def test_this_version_offers_all_features_but_one_that_it_knows():
    assert told_features() == ALL
    assert {GROUP_VERSION} < KNOWN.keys() == OFFERED.keys()
    assert {**KNOWN, GROUP_VERSION: LevelRange(0, 0)} == OFFERED
    assert KNOWN[TRANSACTION_VERSION] == LevelRange(0, 2)
    assert KNOWN[GROUP_VERSION] == KNOWN[COMPACTION] == LevelRange(0, 1)


def test_no_level_is_being_built():
    assert UNSTABLE == OFFERED


def test_a_feature_that_is_not_offered_is_not_raised_and_the_brokers_are_named(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            with pytest.raises(FeatureUpdateError) as raised:
                await change(cluster, 1, name=GROUP_VERSION)
            assert "group.version cannot be at level 1: broker 1 has 0, broker 2 has 0, broker 3 has 0" in str(
                raised.value
            )
            assert in_force(cluster) == [ALL] * 3
            assert formats(cluster) == [3, 3, 3]

    run(test)


# -- founding -----------------------------------------------------------------------------------------------------


def test_three_founders_begin_at_the_highest_levels(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            assert [node.cluster.features for node in cluster.nodes.values()] == [ALL] * 3
            assert in_force(cluster) == [ALL] * 3
            assert formats(cluster) == [3, 3, 3]
            assert [node.stamp.levels for node in cluster.nodes.values()] == [ALL] * 3
            await cluster.stop()
            await cluster.start()
            assert in_force(cluster) == [ALL] * 3
            await cluster.stop(3)
            # As the version before is: the directory says what it lacks, before anything in it is read.
            older = cluster.make(3, features=LIVING)
            with pytest.raises(
                PermanentStartupError, match=r"only versions with raftka\.compaction 1, transaction\.version 2 can read"
            ):
                await older.start()

    run(test, seconds=60)


@pytest.mark.parametrize(
    ("offers", "begun"),
    [
        ((2, 1, 2), {MEMBERSHIP: 1, TRANSACTION_VERSION: 1}),
        ((2, 0, 1), FORMER),
        ((1, 2), {MEMBERSHIP: 1, TRANSACTION_VERSION: 1}),
        ((0, 2), FORMER),
    ],
)
def test_founders_that_offer_different_ranges_begin_at_what_all_have(tmp_path, offers, begun):
    async def test():
        cluster, count = Cluster(tmp_path, len(offers)), len(offers)
        nodes = [cluster.make(number, features=up_to(level)) for number, level in enumerate(offers, start=1)]
        try:
            await asyncio.gather(*(node.start() for node in nodes))
            assert [node.cluster.features for node in nodes] == [begun] * count
            assert [node.stamp.levels for node in nodes] == [begun] * count
            assert formats(cluster) == [2 if begun == FORMER else 3] * count
        finally:
            await cluster.stop()

    run(test)


def test_a_single_broker_begins_at_the_levels_that_it_has(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 1, features=KNOWN) as cluster:
            assert in_force(cluster) == [told_features(KNOWN)]
            assert formats(cluster) == [3]

    run(test)


def test_a_cluster_that_the_former_version_has_founded_starts_and_stays_at_its_levels(tmp_path):
    """Its founders agreed on membership only: what they have written down and marked has the same bytes."""

    async def test():
        async with cluster_of(tmp_path, 3, features=LIVING) as cluster:
            records = [msgspec.json.decode(durable["node/cluster"]) for durable in cluster.durable.values()]
            names = ("format_version", "cluster_id", "members", "features")
            assert {tuple(record) for record in records} == {names}
            assert all(record["features"] == FORMER for record in records)
            directories = [msgspec.json.decode(durable["node/directory"]) for durable in cluster.durable.values()]
            assert {tuple(each) for each in directories} == {("format_version", "node_id", "directory_id")}
            assert formats(cluster) == [2, 2, 2]
            await cluster.stop()
            cluster.features = OFFERED
            await cluster.start()
            assert in_force(cluster) == [FORMER] * 3
            assert formats(cluster) == [2, 2, 2]

    run(test, seconds=60)


def test_words_of_the_former_version_are_understood_and_those_of_this_one_by_it():
    members = (2, "b" * 32, [Seed(1, "h", 1)], None, FORMER)

    def travelled(reply, shape):
        return msgspec.msgpack.decode(msgspec.msgpack.encode(reply), type=shape)

    assert FOUND.reply is AnyWord
    assert travelled(FoundReply(*members), AnyWord).bound == {}
    bound = travelled(SeedWord(*members, is_bound=True), AnyWord)
    assert (bound.bound, bound.word) == (FORMER, FORMER)
    # What this version is bound to beyond membership, the former one does not take for its own promise.
    word = AnyWord(*members[:-1], TRANSACTIONS, would_found="x", levels=TRANSACTIONS)
    assert travelled(word, AnyWord).bound == TRANSACTIONS
    read = travelled(word, SeedWord)
    assert (read.node_id, read.features, read.is_bound, read.would_found) == (2, TRANSACTIONS, False, "x")
    assert msgspec.json.decode(b'{"format_version":1,"cluster_id":"x","members":[]}', type=ClusterRecord).features == {}


def test_words_of_each_former_version_have_bytes_that_this_version_reads():
    head = b"\x02\xa1d\x91\x93\x01\xa1h\x01\xc0"
    members, living = (2, "d", [Seed(1, "h", 1)], None), b"\x81\xb1raftka.membership\x01"

    def read(body):
        word = msgspec.msgpack.decode(body, type=AnyWord)
        assert tuple(msgspec.structs.astuple(word))[:4] == members
        return word.features, word.bound, word.would_found

    # By age: without features, with them, bound, and with the cluster that it would found.
    assert read(b"\x94" + head) == ({}, {}, "")
    assert read(b"\x95" + head + living) == (FORMER, {}, "")
    assert read(b"\x96" + head + living + b"\xc3") == (FORMER, FORMER, "")
    former = b"\x97" + head + living + b"\xc3\xa1x"
    assert read(former) == (FORMER, FORMER, "x")
    # This version sends the same where it is bound to membership alone, and one field more otherwise.
    assert msgspec.msgpack.encode(FoundReply(*members, FORMER)) == b"\x95" + head + living
    assert msgspec.msgpack.encode(SeedWord(*members, FORMER, is_bound=True, would_found="x")) == former
    word = msgspec.msgpack.encode(AnyWord(*members, FORMER, would_found="x", levels={"f": 2}))
    assert word == b"\x98" + head + living + b"\xc2\xa1x\x81\xa1f\x02"
    assert read(word) == (FORMER, {"f": 2}, "x")


# -- levels that change -------------------------------------------------------------------------------------------


def test_transactions_are_raised_in_an_older_cluster_and_every_directory_is_marked_first(tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def test():
        async with cluster_of(tmp_path, 3, features=LIVING) as cluster:
            await cluster.stop()
            cluster.features = OFFERED
            await cluster.start()
            await change(cluster, 1, validate_only=True)
            assert formats(cluster) == [2, 2, 2]
            await change(cluster, 1)
            await until(lambda: all(levels.get(TRANSACTION_VERSION) == 1 for levels in in_force(cluster)))
            assert formats(cluster) == [3, 3, 3]
            await change(cluster, 2)
            await until(lambda: in_force(cluster) == [TRANSACTIONS] * 3)
            assert [node.stamp.levels for node in cluster.nodes.values()] == [TRANSACTIONS] * 3

    run(test, seconds=60)
    assert "versions without raftka.membership 1, transaction.version 2 refuse it from now on" in caplog.text


def test_transactions_are_lowered_to_1_and_raised_again_and_no_registration_raises_them(tmp_path):
    async def test():
        async with cluster_of(tmp_path, 3) as cluster:
            with pytest.raises(FeatureUpdateError, match="lower it with `raftka cluster features downgrade`"):
                await change(cluster, 1)
            await change(cluster, 1, is_lowering=True, validate_only=True)
            assert cluster.controller.controller.features.all() == ALL
            await change(cluster, 1, is_lowering=True)
            lowered = ALL | {TRANSACTION_VERSION: 1}
            await until(lambda: in_force(cluster) == [lowered] * 3)
            await registered_again(cluster)
            assert cluster.controller.controller.features.all() == lowered
            await cluster.stop()
            await cluster.start()
            await until(lambda: in_force(cluster) == [lowered] * 3)
            await change(cluster, 2)
            await until(lambda: in_force(cluster) == [ALL] * 3)

    run(test, seconds=60)


@pytest.mark.parametrize(
    ("name", "level", "is_lowering", "says"),
    [
        (TRANSACTION_VERSION, 0, True, "transaction.version is at level 2, and a level is never lowered below 1"),
        (TRANSACTION_VERSION, 3, True, "transaction.version is at level 2, and is not lowered to level 3"),
        (TRANSACTION_VERSION, 3, False, "transaction.version cannot be at level 3: broker 1 has 2"),
        (MEMBERSHIP, 0, True, "raftka.membership is at level 1, and a level is never lowered"),
        (GROUP_VERSION, 0, True, "group.version is at level 1, and a level is never lowered"),
        (COMPACTION, 0, False, "raftka.compaction is at level 1, and a level is never lowered"),
    ],
)
def test_no_other_level_is_lowered(tmp_path, name, level, is_lowering, says):
    async def test():
        async with cluster_of(tmp_path, 1, features=KNOWN) as cluster:
            with pytest.raises(FeatureUpdateError) as raised:
                await change(cluster, level, name=name, is_lowering=is_lowering)
            assert says in str(raised.value)
            assert in_force(cluster) == [told_features(KNOWN)]

    run(test)
