"""Raft paper, figure 7: whatever logs the followers have when a leader comes to power, they become the leader's."""

from tests.simulation.scenarios.scenario import LEADER, QUORUM, Scenario

# The figure's names. The table's barriers are each term's first entry.
TOP, A, B, C, D, E, F = range(1, 8)


def _build(story: Scenario) -> None:
    """Write the logs of the figure: every leader is cut off or killed where the figure says its term ended."""
    everybody = {TOP, A, B, C, D, E, F}
    if story.leader != TOP:
        story.elect_into_office(TOP)
    answered = story.written(TOP, QUORUM, 2)
    story.wait(lambda: all(story.terms(node_id) == [1, 1, 1] for node_id in everybody))
    story.wait(lambda: all(write.is_answered for write in answered))
    # f leads terms 2 and 3 and nobody receives anything of it.
    for term, count in ((2, 2), (3, 4)):
        story.connect(everybody)
        story.elect(F)
        story.connect()
        story.written(F, LEADER, count)
        assert story.replica(F).term == term
        story.kill(F)
        if term == 2:
            story.heal()
            story.restart(F)
    # e leads term 4: one entry for b, two for most, two more for itself.
    story.connect({TOP, A, B, C, D, E})
    story.elect(E)
    story.wait(lambda: len(story.log(B)) == 4)
    story.connect({TOP, A, C, D, E})
    story.written(E, LEADER)
    story.wait(lambda: all(len(story.log(node_id)) == 5 for node_id in (TOP, A, C, D)))
    story.connect()
    story.written(E, LEADER, 2)
    story.kill(E)
    # c leads terms 5 and 6.
    story.connect({TOP, A, C, D})
    story.elect_into_office(C)
    story.written(C, LEADER)
    story.wait(lambda: all(len(story.log(node_id)) == 7 for node_id in (TOP, A, C, D)))
    story.kill(C)
    story.restart(C)
    story.elect_into_office(C)
    [last] = story.written(C, QUORUM)
    story.wait(lambda: last.is_answered and all(len(story.log(node_id)) == 9 for node_id in (TOP, A, C, D)))
    story.connect({TOP, C, D})
    story.written(C, LEADER)
    story.wait(lambda: all(len(story.log(node_id)) == 10 for node_id in (TOP, D)))
    story.connect()
    story.written(C, LEADER)
    story.kill(C)
    # d leads term 7 and nobody receives anything of it.
    story.connect({TOP, A, B, D})
    story.elect(D)
    story.connect()
    story.written(D, LEADER)
    story.kill(D)


def test_followers_of_every_shape_take_the_new_leaders_log() -> None:
    with Scenario(7, nodes=7) as story:
        _build(story)
        assert {node_id: story.terms(node_id) for node_id in story.world.nodes} == {
            TOP: [1, 1, 1, 4, 4, 5, 5, 6, 6, 6],
            A: [1, 1, 1, 4, 4, 5, 5, 6, 6],
            B: [1, 1, 1, 4],
            C: [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6],
            D: [1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7],
            E: [1, 1, 1, 4, 4, 4, 4],
            F: [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3],
        }
        committed = list(story.cluster.history.committed_in(story.group))
        tops = story.log(TOP)
        assert [entry.term for entry in committed] == [1, 1, 1, 4, 4, 5, 5, 6, 6]

        story.heal()
        story.restart(C, D, E, F)
        story.elect(TOP)
        assert story.replica(TOP).term == 8
        story.converge()

        for node_id in story.world.nodes:
            log = story.log(node_id)
            assert [entry.chain for entry in log[: len(tops)]] == [entry.chain for entry in tops]
            assert [entry.chain for entry in log[: len(committed)]] == [entry.chain for entry in committed]
            assert story.terms(node_id)[len(tops) :] == [8]
        assert all(write.error is None for write in story.writes if write.level is QUORUM)
