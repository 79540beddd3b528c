"""RFC 0001: the topics are one linearizable object; simulated administrators found these two (RFC 0006)."""

from collections.abc import Iterator

import pytest

from cluster.admin_messages import AdminReply, CreateTopicRequest, DeleteTopicRequest
from cluster.errors import ClusterError, ControllerUnavailableError, TopicExistsError
from model.ids import RAFT0
from tests.simulation.world.cluster import TOPIC, ClusterOptions, SimCluster
from tests.simulation.world.world import World


@pytest.fixture
def cluster() -> Iterator[SimCluster]:
    with World(601) as world:
        cluster = SimCluster(world, ClusterOptions())
        cluster.found()
        yield cluster


class _Asked:
    """A request to one broker's administration."""

    def __init__(self, cluster: SimCluster, node_id: int, request: CreateTopicRequest | DeleteTopicRequest) -> None:
        self.reply: AdminReply | None = None
        self.error: ClusterError | None = None
        self._task = cluster.world.nodes[node_id].spawn(self._ask(cluster.nodes[node_id].admin, request))

    async def _ask(self, admin, request) -> None:
        ask = admin.create_topic if isinstance(request, CreateTopicRequest) else admin.delete_topic
        try:
            self.reply = await ask(request)
        except ClusterError as error:
            self.error = error

    @property
    def is_answered(self) -> bool:
        return self._task.done()


def _topic(name: str, *, validate_only: bool = False) -> CreateTopicRequest:
    return CreateTopicRequest(name, 1, 3, [], {}, validate_only, 5.0)


def _wait(cluster: SimCluster, goal, seconds: float = 10.0) -> None:
    assert cluster.world.run_until(goal, cluster.world.time + seconds)
    cluster.world.check()


def test_a_leader_that_nobody_confirms_refuses_nothing_and_validates_nothing(cluster) -> None:
    leader = cluster.leader_of(RAFT0)
    exists = _Asked(cluster, leader, _topic(TOPIC, validate_only=True))
    _wait(cluster, lambda: exists.is_answered)
    assert isinstance(exists.error, TopicExistsError)
    cluster.world.network.isolate(leader)
    asked = [_Asked(cluster, leader, _topic(name, validate_only=True)) for name in (TOPIC, "new")]
    asked.append(_Asked(cluster, leader, DeleteTopicRequest("never-existed", "", 5.0)))
    assert cluster.nodes[leader].controller.is_in_office, "it does not know"
    _wait(cluster, lambda: all(each.is_answered for each in asked))
    assert [type(each.error) for each in asked] == [ControllerUnavailableError] * 3


@pytest.mark.parametrize("is_deletion", [False, True])
def test_a_request_whose_answer_was_lost_is_not_sent_again(cluster, is_deletion) -> None:
    leader = cluster.leader_of(RAFT0)
    [follower, _] = [node_id for node_id in cluster.world.nodes if node_id != leader]
    tables = cluster.nodes[leader].controller.topics
    cluster.world.network.cut(leader, follower)
    request = DeleteTopicRequest(TOPIC, "", 5.0) if is_deletion else _topic("new")
    asked = _Asked(cluster, follower, request)
    _wait(cluster, lambda: (tables.get(TOPIC) is None) if is_deletion else (tables.get("new") is not None))
    cluster.world.network.heal(leader, follower)
    cluster.world.network.reset(leader, follower)
    _wait(cluster, lambda: asked.is_answered, 1.0)
    assert isinstance(asked.error, ControllerUnavailableError)
    assert "unknown" in str(asked.error)


def test_a_deletion_by_name_is_of_the_topic_that_the_leader_knows(cluster) -> None:
    leader = cluster.leader_of(RAFT0)
    [behind, _] = [node_id for node_id in cluster.world.nodes if node_id != leader]
    # Its table is old: it has not applied the deletion of the first "new", nor the creation of the second.
    for request in (_topic("new"), DeleteTopicRequest("new", "", 5.0), _topic("new")):
        asked = _Asked(cluster, leader, request)
        _wait(cluster, lambda asked=asked: asked.is_answered)
        assert asked.error is None
    deletion = _Asked(cluster, behind, DeleteTopicRequest("new", "", 5.0))
    _wait(cluster, lambda: deletion.is_answered)
    assert deletion.reply is not None
    assert deletion.reply.name == "new"
    assert cluster.nodes[leader].controller.topics.get("new") is None
