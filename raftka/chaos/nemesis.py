"""Carries out a schedule: does each fault at its time, takes it back at its end, and writes both into the history."""

import errno
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from raftka.chaos import small_disks
from raftka.chaos.cluster import ChaosCluster
from raftka.chaos.hand_overs import HandOvers
from raftka.chaos.history import History
from raftka.chaos.leadership import LeadershipWatch
from raftka.chaos.link_faults import LinkFaults
from raftka.chaos.load import Topics, tp_of
from raftka.chaos.membership import Membership
from raftka.chaos.network_namespace import NetworkNamespace
from raftka.chaos.schedule import COOL_DOWN_SECONDS, Fault, Schedule
from raftka.chaos.vanished_directories import VanishedDirectories

_STEP_SECONDS = 0.1
_AGAIN_SECONDS = 1.0
_LATE_SECONDS_MAX = 60.0
# How many descriptors a broker gets beside those that it has open.
_SPARE_DESCRIPTORS = (0, 8)
# A full disk has none, or too little for producers but enough for what brokers write themselves.
_LEFT_BYTES = (0, 8 * 1024 * 1024)
_NO_ROOM = os.strerror(errno.ENOSPC)


@dataclass(frozen=True, slots=True, order=True)
class _Action:
    """The beginning of a fault, or its end if there is something to take back.

    Attributes:
        due: When, in seconds of the run.
        late: By how much that is later than planned.
    """

    due: float
    number: int
    fault: Fault = field(compare=False)
    take_back: Callable[[], None] | None = field(default=None, compare=False)
    victims: tuple[int, ...] = field(default=(), compare=False)
    late: float = field(default=0.0, compare=False)


class Nemesis:
    """Does what a schedule says to a cluster, from the thread that calls `run`."""

    def __init__(
        self,
        cluster: ChaosCluster,
        network: NetworkNamespace,
        history: History,
        watch: LeadershipWatch,
        topics: Topics,
        schedule: Schedule,
    ) -> None:
        self._cluster = cluster
        self._network = network
        self._history = history
        self._watch = watch
        self._topics = topics
        self._schedule = schedule
        self._rng = random.Random(f"{schedule.seed} nemesis")
        # The one broker whose disk may be damaged: what is damaged on a majority, nobody promises.
        self._marked = self._rng.choice(cluster.nodes)
        self._killed: set[int] = set()
        self._links = LinkFaults(cluster, network, history, self._rng)
        self._hand_overs = HandOvers(cluster, history, watch, topics)
        # Faults of the schedule that have happened, in the order in which they began.
        self.done: list[Fault] = []
        # Disks without a free byte, brokers that were started on one, and dead ones that wait for who makes room.
        self._full_disks: set[int] = set()
        self._started_full: set[int] = set()
        self._without_room: set[int] = set()
        self._vanished = VanishedDirectories(cluster)
        self.membership = Membership(cluster, history, topics, random.Random(f"{schedule.seed} membership"))
        # Brokers that were killed, and are to be started when their directory is back.
        self._owed_starts: set[int] = set()
        # Brokers with few descriptors: the process, and the limit that it had.
        self._limited: dict[int, tuple[int, int]] = {}
        # (node, exit code, last line of its log) of brokers that ended though nobody had killed them.
        self.deaths: list[tuple[int, int, str]] = []

    def run(self, is_interrupted: Callable[[], bool]) -> None:
        """Return when the run's time is over, or it was interrupted; everything that is left is taken back.

        What a busy machine did late is made up for at the end: behind the last fault there is as much time as planned.
        """
        began = time.monotonic()
        late = 0.0
        actions = [_Action(fault.at, number, fault) for number, fault in enumerate(self._schedule.faults)]
        heapify(actions)
        try:
            while (elapsed := time.monotonic() - began) < self._schedule.seconds + late and not is_interrupted():
                if actions and actions[0].due <= elapsed:
                    action = heappop(actions)
                    following = self._act(action, began)
                    late = min(max(late, action.late + time.monotonic() - began - action.due), _LATE_SECONDS_MAX)
                    if following is not None:
                        heappush(actions, following)
                    continue
                self.membership.step()
                if self.membership.is_busy:
                    # What it has begun, it ends; and behind that, too, there is time.
                    over = elapsed + COOL_DOWN_SECONDS - self._schedule.seconds
                    late = max(late, min(over, _LATE_SECONDS_MAX))
                self.look_after_the_dead()
                time.sleep(_STEP_SECONDS)
        finally:
            self.heal()

    def heal(self) -> None:
        """Take everything back: links, disks, pauses, and dead brokers."""
        self._hand_overs.finish()
        self._network.heal()
        self._bring_back(self._cluster.nodes)
        self._restore_descriptors(list(self._limited))
        self._make_room(list(self._cluster.nodes))
        for node in self._cluster.nodes:
            self._cluster.resume(node)
            self._cluster.hang_appends(node, hang=False)
        for node in sorted(self._killed):
            self._start(node)
        self._killed.clear()
        self.look_after_the_dead()
        if self._has_membership():
            self.membership.finish(self.look_after_the_dead)
        self._history.fault("healed")

    def _has_membership(self) -> bool:
        return any(fault.nemesis == "membership" for fault in self.done)

    def _act(self, action: "_Action", began: float) -> "_Action | None":
        """Begin a fault, or end it; returns what is to be done later because of it."""
        fault = action.fault
        if action.take_back is not None:
            action.take_back()
            self._history.fault(f"{fault.kind} ends", nodes=action.victims, nemesis=fault.nemesis)
            return None
        victims = self._victims(fault.target)
        take_back = self._begin(fault, victims)
        now = time.monotonic() - began
        if take_back is None:
            # Not yet: there is nothing to do it to. What never happens, the run tells.
            later = now + _AGAIN_SECONDS
            is_in_time = later <= self._schedule.seconds - COOL_DOWN_SECONDS
            return _Action(later, action.number, fault) if is_in_time else None
        self.done.append(fault)
        if not fault.seconds:
            return None
        late = action.late + now - action.due
        return _Action(now + fault.seconds, action.number, fault, take_back, tuple(victims), late)

    def _begin(self, fault: Fault, victims: list[int]) -> Callable[[], None] | None:
        """Do it; returns what takes it back. None: there is nothing to do it to yet."""
        if fault.nemesis == "membership":
            return self.membership.begin(fault.kind, victims[0], fault)
        if fault.nemesis == "partition":
            return self._links.begin(victims, fault)
        if fault.nemesis == "transfer":
            return self._hand_overs.begin(victims, fault)
        take_back: Callable[[], None] | None = getattr(self, "_" + fault.kind.replace("-", "_"))(victims, fault)
        return take_back

    def _victims(self, target: str) -> list[int]:
        nodes = list(self._cluster.nodes)
        if target == "all":
            return nodes
        if target == "marked":
            return [self._marked]
        if target == "majority":
            return sorted(self._rng.sample(nodes, len(nodes) // 2 + 1))
        found: int | None = None
        if target == "controller":
            found = self._watch.controller
        elif target == "leader" and self._topics.all:
            found = self._watch.leader_of(tp_of(*self._rng.choice(self._topics.all)))
        return [found if found is not None and found in nodes else self._rng.choice(nodes)]

    def _note(self, fault: Fault, victims: list[int], **fields: object) -> None:
        self._history.fault(fault.kind, nodes=victims, nemesis=fault.nemesis, target=fault.target, **fields)

    # -- processes ----------------------------------------------------------------------------------------------

    def _kill(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        changed = self.membership.at_work
        if fault.target == "one" and changed is not None and changed in self._cluster.nodes:
            # Amid its join, its end, or its repair.
            victims[:] = [changed]
        self._note(fault, victims)
        for node in victims:
            self._killed.add(node)
            self._cluster.kill(node)

        def start_again() -> None:
            for node in victims:
                self._killed.discard(node)
                self._start(node)

        return start_again

    def _pause(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        self._note(fault, victims)
        for node in victims:
            self._cluster.pause(node)

        def resume() -> None:
            for node in victims:
                self._cluster.resume(node)

        return resume

    def look_after_the_dead(self) -> None:
        """Start brokers that have ended by themselves; also while the cluster is to become well again."""
        for node in self._cluster.nodes:
            if node in self._killed or node in self._without_room or self._cluster.exit_code(node) is None:
                continue
            if node in self.membership.held:
                continue
            if node in self._vanished:
                continue  # It is started, and its end told, when the directory is back.
            self._note_death(node)
            if node in self._full_disks:
                self._without_room.add(node)
            else:
                self._start(node)

    def _start(self, node: int) -> None:
        """Start a broker, unless it runs or has no room; later, if its directory is away."""
        if node in self.membership.held or node not in self._cluster.nodes:
            return
        if node in self._vanished:
            self._owed_starts.add(node)
            return
        if self._cluster.exit_code(node) is None or node in self._without_room:
            return
        self._vanished.forget(node)
        if node in self._full_disks:
            self._started_full.add(node)
        else:
            self._started_full.discard(node)
        self._cluster.start_again(node)

    def _note_death(self, node: int) -> None:
        """Write down how a broker ended.

        One that was started on a full disk, or lost its directory, may say so and leave; no other may.
        """
        code, last_line = self._cluster.exit_code(node), self._cluster.last_line(node)
        assert code is not None
        if node in self._started_full and _NO_ROOM in last_line:
            self._history.fault("no room to start", nodes=[node], code=code)
            return
        if self._vanished.explains_end(node, code):
            self._history.fault("ended without its directory", nodes=[node], code=code)
            return
        self.deaths.append((node, code, last_line))
        self._history.fault("ended by itself", nodes=[node], code=code, said=last_line)

    # -- disks --------------------------------------------------------------------------------------------------

    def _hang_append(self, victims: list[int], fault: Fault) -> Callable[[], None]:
        self._note(fault, victims)
        for node in victims:
            self._cluster.hang_appends(node, hang=True)

        def go_on() -> None:
            for node in victims:
                self._cluster.hang_appends(node, hang=False)

        return go_on

    _hang_append_shortly = _hang_append

    def _vanish_directory(self, victims: list[int], fault: Fault) -> Callable[[], None] | None:
        # A broker that is being started would make a new directory.
        ready = [node for node in victims if self._may_vanish(node)]
        if ready != victims:
            return None
        self._note(fault, victims)
        for node in victims:
            self._vanished.take_away(node)

        return lambda: self._bring_back(victims)

    def _bring_back(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            self._vanished.bring_back(node)
            if node in self._owed_starts:
                self._owed_starts.discard(node)
                self._start(node)
        # Whoever has ended by itself is started, unless somebody else means to.
        self.look_after_the_dead()

    def _may_vanish(self, node: int) -> bool:
        is_filled = (self._cluster.data_dir(node) / small_disks.FILLER).exists()
        return node not in self._vanished and not is_filled and self._cluster.is_serving(node)

    def _few_descriptors(self, victims: list[int], fault: Fault) -> Callable[[], None] | None:
        if any(node in self._limited for node in victims):
            return None
        spare = self._rng.choice(_SPARE_DESCRIPTORS)
        for node in victims:
            before = self._cluster.limit_descriptors(node, spare)
            if before is None:
                self._restore_descriptors(victims)
                return None
            self._limited[node] = before
        self._note(fault, victims, spare=spare)
        return lambda: self._restore_descriptors(victims)

    def _restore_descriptors(self, nodes: Sequence[int]) -> None:
        for node in nodes:
            if (before := self._limited.pop(node, None)) is not None:
                self._cluster.restore_descriptors(node, *before)

    def _full(self, victims: list[int], fault: Fault) -> Callable[[], None] | None:
        if any(node in self._vanished for node in victims):
            return None
        left = self._rng.choice(_LEFT_BYTES)
        seen = {node: self._cluster.log_size(node) for node in victims}
        taken = [small_disks.fill(self._cluster.data_dir(node), left) for node in victims]
        if not any(taken):
            return None
        self._note(fault, victims, left_bytes=left, taken_bytes=taken)

        if left == 0:
            self._full_disks |= set(victims)

        def empty() -> None:
            self._make_room(victims)
            for node in victims:
                # Not a byte was left for votes either: such a replica has stopped, and whoever made room starts again.
                if node not in self._killed and self._cluster.has_stopped_replicas(node, seen[node]):
                    self._history.fault("restarted", nodes=[node], nemesis=fault.nemesis)
                    self._cluster.kill(node)
                    self._start(node)

        return empty

    def _make_room(self, nodes: list[int]) -> None:
        for node in nodes:
            small_disks.empty(self._cluster.data_dir(node))
            self._full_disks.discard(node)
            if node in self._without_room:
                self._without_room.discard(node)
                if node not in self._killed:
                    self._start(node)

    def _bit_flip(self, victims: list[int], fault: Fault) -> Callable[[], None] | None:
        (node,) = victims
        if node in self._vanished:
            return None
        closed = self._cluster.closed_segments(node, self._topics.names)
        if not closed:
            return None
        tp, path = self._rng.choice(closed)
        position, bit = self._rng.randrange(path.stat().st_size), self._rng.randrange(8)
        with path.open("r+b", buffering=0) as stream:
            stream.seek(position)
            (byte,) = stream.read(1)
            stream.seek(position)
            stream.write(bytes([byte ^ 1 << bit]))
        self._note(fault, victims, tp=tp, file=path.name, position=position, bit=bit)
        # Who leads is who is read from: damage that nobody meets proves nothing.
        topic, _, number = tp.rpartition("-")
        self._hand_overs.hand_over(topic, int(number), node, fault)
        return lambda: None
