"""Many deadlines, one timer."""

from collections.abc import Iterator

import pytest

from raft.deadline_queue import Deadline, DeadlineQueue
from tests.simulation.world.world import World


class Clock:
    """A queue on a virtual loop that starts at 0, and which deadline fired when."""

    def __init__(self) -> None:
        self.world = World(1)
        self._node = self.world.add_node(1)
        self._node.loop.offset = 0.0
        self.queue = DeadlineQueue()
        self.fired: list[tuple[str, float]] = []

    def deadline(self, name: str) -> Deadline:
        return self.queue.deadline(lambda: self.fired.append((name, self.world.time)))

    def arm(self, deadline: Deadline, when: float) -> None:
        """Arm as a node does, on its loop."""
        self._node.loop.post(deadline.arm, when)
        self.run_until(self.world.time)

    def run_until(self, when: float) -> None:
        self.world.run_until(when)
        self.world.check()


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock()
    yield made
    made.world.close()


def test_deadlines_fire_in_order_of_time_and_then_of_arming(clock: Clock) -> None:
    for name, when in (("late", 3.0), ("early", 1.0), ("first", 2.0), ("second", 2.0)):
        clock.arm(clock.deadline(name), when)
    clock.run_until(10.0)
    assert clock.fired == [("early", 1.0), ("first", 2.0), ("second", 2.0), ("late", 3.0)]


def test_a_deadline_that_moves_later_fires_once_at_the_new_time(clock: Clock) -> None:
    one = clock.deadline("one")
    clock.arm(one, 1.0)
    for when in (2.0, 3.0, 4.0):
        clock.arm(one, when)
    clock.run_until(10.0)
    assert clock.fired == [("one", 4.0)]


def test_moving_later_costs_nothing_in_the_heap(clock: Clock) -> None:
    one = clock.deadline("one")
    for tenth in range(100):
        clock.arm(one, 1.0 + tenth / 10)
    assert len(clock.queue._heap) == 1


def test_a_deadline_that_moves_earlier_fires_once_at_the_new_time(clock: Clock) -> None:
    one = clock.deadline("one")
    clock.arm(one, 4.0)
    clock.arm(one, 1.0)
    clock.run_until(10.0)
    assert clock.fired == [("one", 1.0)]


def test_a_disarmed_deadline_does_not_fire_and_can_be_armed_again(clock: Clock) -> None:
    one = clock.deadline("one")
    clock.arm(one, 1.0)
    one.disarm()
    clock.run_until(2.0)
    assert (clock.fired, one.when) == ([], None)
    clock.arm(one, 3.0)
    clock.run_until(4.0)
    assert clock.fired == [("one", 3.0)]


def test_a_callback_may_arm_its_own_deadline(clock: Clock) -> None:
    def again() -> None:
        clock.fired.append(("tick", clock.world.time))
        one.arm(clock.world.time + 1.0)

    one = clock.queue.deadline(again)
    clock.arm(one, 1.0)
    clock.run_until(3.0)
    assert clock.fired == [("tick", 1.0), ("tick", 2.0), ("tick", 3.0)]


def test_a_closed_queue_fires_nothing_any_more(clock: Clock) -> None:
    clock.arm(clock.deadline("one"), 1.0)
    clock.queue.close()
    clock.arm(clock.deadline("two"), 2.0)
    clock.run_until(10.0)
    assert clock.fired == []
