"""What a broker can do is known to all, whatever a leader or a snapshot of a version without features has left out."""

import asyncio
from types import SimpleNamespace

import msgspec
import pytest

from cluster.admin_messages import UpdateFeatureRequest
from cluster.admin_requests import AdminRequests
from cluster.commands import RegisterBroker, SetFeature
from cluster.errors import FeatureUpdateError
from cluster.founding import Founding
from cluster.node import Node
from cluster.present_features import PresentFeatures
from model.features import MEMBERSHIP
from model.ids import NodeId
from tests.feature_levels import LEVEL_0, LIVING
from tests.unit.cluster.cluster_nodes import Cluster, run, until
from tests.unit.kafka_api.wire_client import stuck_disk

ALL = (1, 2, 3)
KNOWN = [{MEMBERSHIP: 1}] * 3


class Upgraded(Cluster):
    """Nodes that were founded without features, and have them now."""

    features = LEVEL_0

    def make(self, number, **changes):
        return super().make(number, **{"features": self.features, **changes})

    async def upgrade(self):
        await self.start()
        await self.stop()
        self.features = LIVING
        await self.start()

    async def replace(self, number, features):
        """Start a node in another version; it does not register, so the tables have what it was before."""
        await self.stop(number)
        await until(self.has_controller)
        await self.make(number, features=features).start()
        await until(lambda: self.has_controller() and self.are_linked())

    def are_linked(self):
        pairs = [
            (node, NodeId(other)) for number, node in self.nodes.items() for other in self.nodes if other != number
        ]
        return all(node.links.is_up(other) for node, other in pairs)

    def known(self, through):
        brokers = self[through].controller.members
        return [brokers.get(NodeId(node)).features for node in ALL]

    async def ask(self, *, validate_only=False, through=None):
        await until(self.has_controller)
        node = self[through or min(self.nodes)]
        await node.admin.update_feature(UpdateFeatureRequest(MEMBERSHIP, 1, validate_only, 10.0))

    def levels(self):
        return [node.controller.features.level(MEMBERSHIP) for node in self.nodes.values()]


def with_cluster(tmp_path, test):
    async def bounded():
        cluster = Upgraded(tmp_path, 3)
        try:
            await test(cluster)
        finally:
            await cluster.stop()

    run(bounded, seconds=90)


async def upgraded(cluster):
    await cluster.upgrade()
    await until(lambda: all(cluster.known(node) == KNOWN for node in ALL))


def test_what_a_leader_without_features_leaves_out_is_told_to_the_next_leader(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.known_features._LOOK_PAUSE", 0.01)
    former, register = set(), AdminRequests._register_broker

    async def leaves_out(admin, request, deadline):
        if admin._self_node in former:
            broker = msgspec.structs.replace(request.broker, features={})
            request = msgspec.structs.replace(request, broker=broker)
        return await register(admin, request, deadline)

    monkeypatch.setattr(AdminRequests, "_register_broker", leaves_out)

    async def test(cluster):
        former.update(ALL)
        await cluster.upgrade()
        assert cluster.known(1) == [{}] * 3
        leader = int(cluster.controller.options.node_id)
        former.clear()
        await cluster.stop(leader)
        others = [node for node in ALL if node != leader]
        await until(lambda: all(cluster.known(node)[other - 1] for node in others for other in others), seconds=30)
        await cluster.start(leader)
        await until(lambda: all(cluster.known(node) == [{MEMBERSHIP: 1}] * 3 for node in ALL), seconds=30)

    with_cluster(tmp_path, test)


def _forget(node: Node) -> None:
    """What begins with the snapshot of a version without features does not have them."""
    table = node.controller.members
    for broker in table.all():
        table.apply_register(msgspec.structs.replace(broker, features={}))


def test_a_registration_that_lies_in_the_log_counts(tmp_path):
    """It took too long for whoever proposed it, and is not committed while raft0's leader looks at its tables."""

    async def test():
        cluster = Upgraded(tmp_path, 1)
        try:
            await cluster.upgrade()
            node = cluster[1]
            controller, deadline = node.controller, asyncio.get_running_loop().time() + 20
            other = msgspec.structs.replace(controller.members.get(NodeId(1)), node_id=2)
            await controller.propose(RegisterBroker(msgspec.structs.replace(other, features={MEMBERSHIP: 1})), deadline)
            async with stuck_disk(SimpleNamespace(node=node)):
                late = asyncio.create_task(
                    controller.propose(RegisterBroker(msgspec.structs.replace(other, features={})), deadline)
                )
                await until(lambda: controller.consensus.log.dirty_index > controller.applied_index)
                asked = asyncio.create_task(cluster.ask())
                await until(controller.admission.locked)
            await late
            with pytest.raises(FeatureUpdateError, match="broker 2 has 0"):
                await asked
            assert cluster.levels() == [0]
        finally:
            await cluster.stop()

    run(test)


def test_replicas_with_other_registrations_take_a_level_alike(tmp_path):
    async def test(cluster):
        await upgraded(cluster)
        await until(cluster.has_controller)
        for node in cluster.nodes.values():
            if node is not cluster.controller:
                _forget(node)
        await cluster.ask()
        await until(lambda: cluster.levels() == [1, 1, 1])
        assert all(cluster.known(node) == KNOWN for node in ALL)

    with_cluster(tmp_path, test)


def test_replicas_with_other_registrations_differ_if_a_level_does_not_say_by_what_it_was_judged(tmp_path):
    async def test(cluster):
        await upgraded(cluster)
        await until(cluster.has_controller)
        leader = cluster.controller
        others = [node for node in cluster.nodes.values() if node is not leader]
        for node in others:
            _forget(node)
        deadline = asyncio.get_running_loop().time() + 10
        index = await leader.controller.propose(SetFeature(MEMBERSHIP, 1), deadline)
        await until(lambda: all(node.controller.applied_index >= index for node in others))
        assert [node.controller.features.level(MEMBERSHIP) for node in (leader, *others)] == [1, 0, 0]

    with_cluster(tmp_path, test)


@pytest.mark.parametrize("through", [1, 3])
def test_a_level_is_refused_while_a_linked_broker_is_of_a_version_without_it_whatever_the_tables_say(tmp_path, through):
    async def test(cluster):
        await upgraded(cluster)
        await cluster.replace(3, LEVEL_0)
        assert cluster.known(1) == KNOWN
        for validate_only in (True, False):
            with pytest.raises(FeatureUpdateError, match="cannot be at level 1: broker 3 has 0; start a newer version"):
                await cluster.ask(validate_only=validate_only, through=through)
        assert cluster.levels() == [0, 0, 0]
        assert not any(node.stamp.is_stamped for node in cluster.nodes.values())
        await cluster.replace(3, LIVING)
        await cluster.ask(validate_only=True)
        assert cluster.levels() == [0, 0, 0]
        await cluster.ask()
        await until(lambda: cluster.levels() == [1, 1, 1])

    with_cluster(tmp_path, test)


def test_a_level_is_raised_too_early_if_only_the_tables_are_asked(tmp_path, monkeypatch):
    async def nobody(*_):
        return {}

    monkeypatch.setattr(PresentFeatures, "ask", nobody)

    async def test(cluster):
        await upgraded(cluster)
        await cluster.replace(3, LEVEL_0)
        await until(lambda: cluster.controller is not None and cluster.controller is not cluster[3])
        await cluster.ask()
        await until(lambda: cluster[1].controller.features.level(MEMBERSHIP) == 1)

    with_cluster(tmp_path, test)


def test_a_level_is_refused_while_a_linked_broker_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("cluster.present_features._ANSWER_TIMEOUT", 0.1)
    answer = Founding._on_found

    def is_silent(founding, *asked):
        return asyncio.get_running_loop().create_future() if founding in silent else answer(founding, *asked)

    monkeypatch.setattr(Founding, "_on_found", is_silent)
    silent = []

    async def test(cluster):
        await upgraded(cluster)
        await until(lambda: cluster.has_controller() and cluster.are_linked())
        leader = int(cluster.controller.options.node_id)
        other = next(node for node in ALL if node != leader)
        silent.append(cluster[other].founding)
        with pytest.raises(FeatureUpdateError, match=f"broker {other} is linked and has not told what its version has"):
            await cluster.ask(validate_only=True)
        with pytest.raises(FeatureUpdateError, match="ask again once it answers, or stop it"):
            await cluster.ask()
        assert cluster.levels() == [0, 0, 0]
        silent.clear()
        await cluster.ask()

    with_cluster(tmp_path, test)


def test_answers_of_an_earlier_term_raise_nothing(tmp_path, monkeypatch):
    terms, ask = [], PresentFeatures.ask

    async def ask_across_an_election(questions, *asked):
        answers = await ask(questions, *asked)
        controller = cluster[1].controller
        terms.append(controller.consensus.term)
        if len(terms) == 1:
            controller.consensus.step_down("the test")
            await until(lambda: controller.is_in_office and controller.consensus.term > terms[0])
        return answers

    monkeypatch.setattr(PresentFeatures, "ask", ask_across_an_election)
    cluster = Upgraded(tmp_path, 1)

    async def test():
        await cluster.upgrade()
        try:
            await cluster.ask()
            assert len(terms) == 2
            assert cluster.levels() == [1]
        finally:
            await cluster.stop()

    run(test)


def test_of_a_broker_that_is_down_the_table_counts(tmp_path):
    async def test(cluster):
        await upgraded(cluster)
        await cluster.stop(3)
        await until(cluster.has_controller)
        brokers = [node.controller.members for node in cluster.nodes.values()]
        for table in brokers:
            table.apply_features({3: {}})
        with pytest.raises(FeatureUpdateError, match="broker 3 has 0"):
            await cluster.ask()
        for table in brokers:
            table.apply_features({3: {MEMBERSHIP: 1}})
        await cluster.ask()
        await until(lambda: cluster.levels() == [1, 1])
        await cluster.start(3)
        await until(lambda: cluster.levels() == [1, 1, 1])
        assert cluster[3].stamp.is_stamped

    with_cluster(tmp_path, test)
