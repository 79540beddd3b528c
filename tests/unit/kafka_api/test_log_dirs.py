"""DescribeLogDirs: sizes of replicas and of the disk."""

import errno
import os

import pytest
from wire_client import with_client

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import DescribeLogDirsRequest
from tests.engine import consensus_of


def asked(*topics):
    named = DescribeLogDirsRequest.DescribableLogDirTopic
    return DescribeLogDirsRequest(topics=[named(topic=name, partitions=list(numbers)) for name, numbers in topics])


async def describe(client, request, version=5):
    (log_dir,) = (await client.call(ApiKey.DESCRIBE_LOG_DIRS, version, request)).results
    return log_dir


def sizes(log_dir):
    return {
        (topic.name, each.partition_index): each.partition_size for topic in log_dir.topics for each in topic.partitions
    }


def test_all_partitions_are_described_with_their_sizes_and_the_disks(tmp_path):
    async def test(broker, client):
        for name in "ba":
            await client.create_topic(name, 2)
        await client.produce("a", partition=1)
        for version in range(1, 6):
            log_dir = await describe(client, DescribeLogDirsRequest(topics=None), version)
            assert (log_dir.error_code, log_dir.log_dir) == (0, os.path.abspath(broker.node.options.data_dir))
            found = sizes(log_dir)
            assert list(found) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
            assert found["a", 1] == consensus_of(broker.partition("a", 1)).log.size_bytes > found["a", 0]
            if version >= 4:
                assert 0 < log_dir.usable_bytes < log_dir.total_bytes

    with_client(tmp_path, test)


def test_only_what_is_asked_for_and_is_here_is_described_once(tmp_path):
    async def test(_, client):
        await client.create_topic("t", 2)
        log_dir = await describe(client, asked(("t", [1, 1, 2, -1]), ("unknown", [0]), ("t", [1])))
        assert list(sizes(log_dir)) == [("t", 1)]
        assert (await describe(client, asked())).topics == []

    with_client(tmp_path, test)


def test_a_directory_that_cannot_be_looked_at_is_a_storage_error(tmp_path):
    def broken(_, path):
        raise OSError(errno.EIO, "broken", path)

    async def test(broker, client):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(broker.node.env.files), "total_bytes", broken)
            log_dir = await describe(client, DescribeLogDirsRequest(topics=None))
        assert (log_dir.error_code, log_dir.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        assert (log_dir.total_bytes, log_dir.usable_bytes) == (-1, -1)

    with_client(tmp_path, test)
