"""What the command line says of topics: names that there may be, and partitions that nobody leads."""

import pytest

from cluster.errors import InvalidTopicNameError
from cluster.topic_changes import check_topic_name
from raftka.cli.root import run
from raftka.kafka import client as kafka_client
from raftka.kafka.client import ClusterInfo, PartitionInfo
from raftka.kafka.errors import KafkaClientError
from raftka.topic_names import topic_name_problem

GOOD = ("orders", "a", "A.b_c-9", "...", "x" * 249, "-", "_")
BAD = ("", ".", "..", "bad/topic", "a b", " ", "x;y", "x" * 250, "t\u00fcr", "a\n", "\n")


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_a_name_is_refused_where_brokers_refuse_it(name: str) -> None:
    try:
        check_topic_name(name)
    except InvalidTopicNameError:
        is_taken = False
    else:
        is_taken = True
    assert (topic_name_problem(name) == "") is is_taken
    assert is_taken is (name in GOOD)


@pytest.mark.parametrize("name", BAD)
def test_nobody_is_told_to_create_a_topic_that_cannot_be(name: str) -> None:
    with pytest.raises(KafkaClientError) as error:
        ClusterInfo("", 1, {}, {"orders": []}).topic(name)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"no topic {name!r}: a topic name has 1 to 249 characters of a-z")


def test_a_topic_that_is_not_there_is_to_be_created_or_was_mistyped() -> None:
    cluster = ClusterInfo("", 1, {}, {"orders": []})
    with pytest.raises(KafkaClientError, match=r"^no topic 'sales'; create it: raftka topic create sales$"):
        cluster.topic("sales")
    with pytest.raises(KafkaClientError, match=r"^no topic 'ord/ers': did you mean"):
        cluster.topic("ord/ers")


def test_a_partition_that_nobody_leads_has_no_leader_in_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ClusterInfo("", 1, {}, {"orders": [PartitionInfo(0, -1, [1, 2], []), PartitionInfo(1, 2, [1, 2], [2])]})
    monkeypatch.setattr(kafka_client, "read_cluster", lambda *_: found)
    assert run(["topic", "describe", "orders"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in rows] == [["PARTITION", "LEADER"], ["0", "-"], ["1", "2"]]
