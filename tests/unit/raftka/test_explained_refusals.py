"""A refused handshake in words, with its cure."""

import pytest

from raftka.health.refusals import Refusal, explain
from rpc.errors import RefusalCode


@pytest.mark.parametrize("kind", [code.name for code in RefusalCode])
@pytest.mark.parametrize("by_peer", [True, False])
def test_every_refusal_names_the_broker_and_has_a_cure_of_its_own(kind: str, by_peer: bool) -> None:
    found = explain(1, [Refusal(2, kind, by_peer, "the peer says: so it is")])
    assert found is not None
    assert "broker 2" in found.words
    assert found.cure
    assert "logs of both brokers" not in found.cure
    assert "the peer says" not in found.words


def test_an_unknown_refusal_is_told_by_its_message() -> None:
    found = explain(1, [Refusal(2, "NEW_REASON", True, "the moon is full")])
    assert found is not None
    assert "the moon is full" in found.words


def test_no_refusal_is_nothing() -> None:
    assert explain(1, []) is None


def test_peers_with_one_reason_are_told_together_and_the_most_frequent_reason_gives_the_cure() -> None:
    found = explain(
        1,
        [
            Refusal(4, "WRONG_CLUSTER", False, "node 4 belongs to cluster 'x', node 1 to 'y'"),
            Refusal(3, "WRONG_SECRET", True, "of their own"),
            Refusal(2, "WRONG_SECRET", False, "of ours"),
        ],
    )
    assert found is not None
    assert found.words == (
        "brokers 2, 3 and this broker (1) have different cluster secrets; broker 4 and this broker (1) belong to"
        " different clusters: node 4 belongs to cluster 'x', node 1 to 'y'"
    )
    assert "cluster.secret.file" in found.cure


def test_the_directory_that_is_wrong_is_named_on_both_sides() -> None:
    told, teller = (explain(own, [Refusal(peer, "WRONG_DIRECTORY", own == 3, "x")]) for own, peer in ((3, 1), (1, 3)))
    assert told is not None
    assert teller is not None
    assert "knows this broker (3) by another data directory" in told.words
    assert "broker 3 came with another data directory" in teller.words
    assert all("original data directory of broker 3" in each.cure for each in (told, teller))
    assert all(each.cure.endswith("lost: raftka broker replace 3") for each in (told, teller))


def test_each_broker_whose_directory_is_lost_has_its_own_command() -> None:
    found = explain(1, [Refusal(peer, "WRONG_DIRECTORY", False, "x") for peer in (4, 3)])
    assert found is not None
    assert found.cure.endswith("if it is lost: raftka broker replace 3 and raftka broker replace 4")


def test_a_broker_of_an_older_version_is_to_be_upgraded() -> None:
    message = "link format 3 is not taken here; this is format 4"
    for by_peer in (True, False):
        found = explain(1, [Refusal(2, "UNSUPPORTED_VERSION", by_peer, message)])
        assert found is not None
        assert found.cure.startswith("start the newer version on the broker of the older one")
        assert "docs/operations/upgrade.md" in found.cure


def test_a_retired_directory_is_told_on_both_sides_and_nobody_is_to_bring_it_back() -> None:
    message = "the peer says: the data directory d of node 3 is retired and never counts again: start node 3"
    for own, peers in ((3, (1, 2)), (1, (3,))):
        found = explain(own, [Refusal(peer, "WRONG_DIRECTORY", own == 3, message) for peer in peers])
        assert found is not None
        assert "retired" in found.words
        assert (
            found.cure == "start broker 3 with an empty data.dir; if it was removed from the cluster, leave it stopped"
        )
        assert ";" not in found.words


def test_another_generation_of_raft0_is_told_with_the_cure_that_is_its_own() -> None:
    message = "node 3 knows generation 0 of raft0, and node 1 generation 1: raft0 was recovered by hand, and so on"
    for own, peer, by_peer in ((1, 3, False), (3, 1, True)):
        found = explain(own, [Refusal(peer, "WRONG_CLUSTER", by_peer, message)])
        assert found is not None
        assert "know different generations of raft0: node 3 knows generation 0" in found.words
        assert found.cure == "start the broker of the lower generation with an empty data.dir: it joins anew"


def test_a_long_message_is_cut() -> None:
    found = explain(1, [Refusal(2, "MALFORMED", True, "x" * 100_000)])
    assert found is not None
    assert len(found.words) < 500
