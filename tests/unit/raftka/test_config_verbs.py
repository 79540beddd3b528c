"""Verbs about options of running brokers, at the admin ports of three nodes."""

import pytest

from model.features import MEMBERSHIP, LevelRange
from raftka.broker import config_verbs
from tests.unit.cluster.cluster_nodes import Cluster, run, until
from tests.unit.cluster.test_broker_options import Numbers
from tests.unit.raftka.admin_ports import ports_of

CONFIG = "/v1/config"


class _Changeable(Cluster):
    """Three nodes whose options `a`, `b` and `c` can be set; a is at most b."""

    level = 1

    def __init__(self, directory):
        super().__init__(directory, 3)
        self.dynamic = {}

    def make(self, number, **changes):
        self.dynamic[number] = Numbers()
        features = {MEMBERSHIP: LevelRange(0, self.level)}
        return super().make(number, **{"features": features, "dynamic": self.dynamic[number], **changes})


class _Fixed(_Changeable):
    level = 0


def _ports(directory, kind=_Changeable):
    return ports_of(kind(directory))


async def _set(ports, at=1):
    status, body = await ports.ask(CONFIG, at=at)
    assert status == 200
    return body


def test_options_of_all_brokers_and_of_one_are_set_and_unset_and_a_dry_run_changes_nothing(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            tried = {"set": {"a": "1"}, "dry_run": True}
            status, body = await ports.ask(CONFIG, tried, at=2)
            assert (status, body) == (
                200,
                {"dry_run": True, "waits_for": "", "node_id": None, "set": {}, "changed": []},
            )
            status, body = await ports.ask(CONFIG, {"set": {"a": "01", "b": "50"}}, at=2)
            assert (status, body["set"], body["waits_for"]) == (200, {"a": "1", "b": "50"}, "")
            assert body["changed"] == ["a", "b"]
            status, body = await ports.ask(CONFIG, {"node_id": 3, "set": {"a": "7"}}, at=1)
            assert (status, body["node_id"], body["set"]) == (200, 3, {"a": "7"})
            assert await _set(ports, at=1) == {"all": {"a": "1", "b": "50"}, "brokers": {"3": {"a": "7"}}}
            await until(lambda: cluster.dynamic[3].applied[-1:] == [({"a": "1", "b": "50"}, {"a": "7"})])
            # What is so already is asked for without harm.
            end = cluster[1].controller.consensus.log.dirty_index
            for document in ({"node_id": 3, "set": {"a": "7"}}, {"node_id": 2, "unset": ["a"]}, {"set": {"b": "50"}}):
                status, body = await ports.ask(CONFIG, document)
                assert (status, body["changed"]) == (200, [])
            assert cluster[1].controller.consensus.log.dirty_index == end
            assert (await ports.ask(CONFIG, {"node_id": 3, "unset": ["a"]}))[1]["set"] == {}
            assert (await ports.ask(CONFIG, {"unset": ["a"]}, at=3))[1]["set"] == {"b": "50"}

    run(test)


def test_a_change_says_which_of_the_brokers_that_it_is_about_are_away(tmp_path):
    async def test():
        async with _ports(tmp_path) as ports:
            cluster = ports.cluster
            await cluster.stop(3)
            await until(lambda: not cluster[1].is_alive(3))
            await until(cluster.has_controller)
            waits = "broker 3 to come back: it holds there, too, from then on"
            assert (await ports.ask(CONFIG, {"set": {"a": "1"}}))[1]["waits_for"] == waits
            assert (await ports.ask(CONFIG, {"node_id": 3, "set": {"a": "2"}}))[1]["waits_for"] == waits
            assert (await ports.ask(CONFIG, {"node_id": 2, "set": {"a": "2"}}))[1]["waits_for"] == ""
            await cluster.start(3)
            await until(lambda: cluster.dynamic[3].applied[-1:] == [({"a": "1"}, {"a": "2"})])

    run(test)


@pytest.mark.parametrize("is_dry", [True, False])
@pytest.mark.parametrize(
    ("document", "status", "error", "words"),
    [
        ({}, 400, "INVALID_REQUEST", "name keys"),
        ({"set": {"a": 1}}, 400, "INVALID_REQUEST", "set"),
        ({"set": ["a"]}, 400, "INVALID_REQUEST", "set"),
        ({"node_id": -1, "set": {"a": "1"}}, 400, "INVALID_REQUEST", "node_id"),
        ({"node": 1, "set": {"a": "1"}}, 400, "INVALID_REQUEST", "node"),
        ({"node_id": 9, "set": {"a": "1"}}, 404, "BROKER_ID_NOT_REGISTERED", "broker 9 is not in the cluster"),
        ({"set": {"z": "1"}}, 400, "INVALID_CONFIG", "unknown option z"),
        ({"unset": ["z"]}, 400, "INVALID_CONFIG", "unknown option z"),
        ({"set": {"a": "x"}}, 400, "INVALID_CONFIG", "not a number"),
        ({"set": {"a": "1"}, "unset": ["a"]}, 400, "INVALID_CONFIG", "a is named twice"),
        # All or none: a alone could be set.
        ({"set": {"a": "1", "z": "1"}}, 400, "INVALID_CONFIG", "unknown option z"),
        ({"node_id": 2, "set": {"a": "101"}}, 400, "INVALID_CONFIG", "a=101 is above b=100"),
    ],
)
def test_what_cannot_be_set_is_refused_as_a_whole(tmp_path, document, status, error, words, is_dry):
    async def test():
        async with _ports(tmp_path) as ports:
            found, body = await ports.ask(CONFIG, {**document, "dry_run": is_dry}, at=2)
            assert (found, body["error"]) == (status, error)
            assert words in body["message"]
            assert await _set(ports, at=2) == {"all": {}, "brokers": {}}

    run(test)


def test_below_the_level_of_the_feature_the_verb_names_it(tmp_path):
    async def test():
        async with _ports(tmp_path, _Fixed) as ports:
            for is_dry in (True, False):
                status, body = await ports.ask(CONFIG, {"set": {"a": "1"}, "dry_run": is_dry})
                assert (status, body["error"]) == (409, "UNSUPPORTED_VERSION")
                assert "raftka.membership at level 1" in body["message"]

    run(test)


def test_a_broker_that_has_not_applied_a_change_yet_does_not_say_that_nothing_changed(tmp_path, monkeypatch):
    async def lags(*_):
        return False

    async def test():
        async with _ports(tmp_path) as ports:
            monkeypatch.setattr(config_verbs, "until_known", lags)
            status, body = await ports.ask(CONFIG, {"set": {"a": "1"}, "unset": ["b"]})
            assert (status, body["changed"]) == (200, ["a", "b"])

    run(test)
