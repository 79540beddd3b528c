"""A group is called by the name of its partition."""

from cluster.commands import CreateTopic, ReplicaRecord
from cluster.topic_table import TopicTable
from model.ids import RAFT0, TopicId, partition_group
from model.replica_tag import ReplicaTag
from model.topic_config import TopicConfig

ORDERS, GONE = TopicId("a" * 32), TopicId("b" * 32)


def test_a_group_is_called_by_topic_and_number_and_by_its_id_where_the_topic_is_gone() -> None:
    table = TopicTable(TopicConfig())
    table.apply_create(CreateTopic("orders", ORDERS, [[ReplicaRecord(1, "d1")]] * 12, {}))
    assert table.name_of(partition_group(ORDERS, 11)) == "orders-11"
    assert table.name_of(partition_group(GONE, 0)) == f"{GONE}/0"
    assert table.name_of(RAFT0) == "raft0"


def test_a_tag_has_what_is_known() -> None:
    assert str(ReplicaTag("orders-0", 2, 1, "L")) == "[orders-0 n2 t1 L]"
    assert str(ReplicaTag("orders-0", 2, 0)) == "[orders-0 n2 t0]"
    assert ReplicaTag("raft0").on("a torn tail is cut") == "[raft0] a torn tail is cut"
