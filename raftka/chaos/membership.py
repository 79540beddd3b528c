"""The membership nemesis: partitions move, and brokers join, leave, are drained, emptied, and get new disks.

Each change is a script, one at a time: a generator that goes on at each step of the nemesis, so that other faults come
amid it. A script asks until it knows an answer, and ends the change that it has begun also after its fault is over.

Two rules keep a run within what the brokers promise. A partition never has fewer replicas than it began with. And no
disk is thrown away before the brokers have said that its directory is retired; where they refuse, it comes back.
"""

import random
import time
from collections.abc import Callable, Generator
from pathlib import Path

from raftka.chaos.broker_admin import BrokerAdmin
from raftka.chaos.cluster import ChaosCluster
from raftka.chaos.history import History
from raftka.chaos.load import Topics, tp_of
from raftka.chaos.schedule import Fault

_STEP_SECONDS = 0.25
_MOVE_PAUSE_SECONDS = 0.7
_CANCEL_SHARE, _CANCEL_ALL_SHARE = 0.3, 0.1
# How long brokers may refuse what they will accept once others are back, and what is told of an old disk.
_REFUSAL_SECONDS = 20.0
_SETTLED_SECONDS = 120.0
_REFUSED = "is retired and never counts again"

Script = Generator[None, None, None]


class Membership:
    """Changes who is in a cluster and what they hold.

    Attributes:
        held: Brokers that only a script may start: their directory is not in its place.
        at_work: The broker that the script is about; None: there is none.
        problems: Why a run proves nothing.
    """

    def __init__(self, cluster: ChaosCluster, history: History, topics: Topics, rng: random.Random) -> None:
        self._cluster = cluster
        self._history = history
        self._topics = topics
        self._rng = rng
        self._admin = BrokerAdmin(cluster, rng)
        self._founders = tuple(cluster.nodes)
        # Directories that were retired, the broker of each, and what it has in their place while they are back.
        self._old_disks: list[tuple[int, Path]] = []
        self._script: Script | None = None
        self._fault: Fault | None = None
        self._is_ending = False
        self._due = 0.0
        self.held: set[int] = set()
        self.at_work: int | None = None
        self.problems: list[str] = []

    @property
    def is_busy(self) -> bool:
        """Whether a change is on its way."""
        return self._script is not None

    def begin(self, kind: str, node: int, fault: Fault) -> Callable[[], None] | None:
        """Begin a change; returns what ends it. None: another one is on its way, or there is nothing to do it to."""
        if self._script is not None:
            return None
        script = self._script_of(kind, node)
        if script is None:
            return None
        self._fault, self._script, self._is_ending = fault, script, False
        return self._end

    def _script_of(self, kind: str, node: int) -> Script | None:
        extra = [each for each in self._cluster.nodes if each not in self._founders]
        founder = node if node in self._founders else self._rng.choice(self._founders)
        if kind == "old-disk-returns":
            old = [each for each in self._old_disks if each[0] in self._cluster.nodes]
            return self._old_disk_returns(*self._rng.choice(old)) if old else None
        if kind == "remove":
            return self._remove(self._rng.choice(extra)) if extra else None
        if kind == "join":
            return self._join()
        by_kind = {"drain": self._drain, "decommission": self._decommission, "replace-disk": self._replace_disk}
        return by_kind[kind](founder) if kind in by_kind else self._moves(may_change_count=kind == "change-count")

    def _end(self) -> None:
        self._is_ending = True

    def step(self) -> None:
        """Go on with the script."""
        if self._script is None or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _STEP_SECONDS
        try:
            next(self._script)
        except StopIteration:
            self._script, self.at_work = None, None

    def finish(self, look_after: Callable[[], None]) -> None:
        """Wait until all changes are made, when nothing else is wrong any more."""
        self._is_ending = True
        deadline = time.monotonic() + _SETTLED_SECONDS
        why: str | None = "a change is on its way"
        while self._script is not None or (why := self._admin.why_not_settled()) is not None:
            if time.monotonic() > deadline:
                told = why if self._fault is None else f"{why} (last: {self._fault.kind})"
                self.problems.append(f"changes of members were not made in {_SETTLED_SECONDS:g} s: {told}")
                return
            self.step()
            look_after()
            time.sleep(_STEP_SECONDS)

    def _note(self, name: str, **fields: object) -> None:
        assert self._fault is not None
        self._history.fault(name, nemesis=self._fault.nemesis, **fields)

    # -- partitions ---------------------------------------------------------------------------------------------

    def _moves(self, *, may_change_count: bool) -> Script:
        """Move partitions one after the other; some moves are cancelled. The count changes, and is as before."""
        self._note("change-count" if may_change_count else "move", nodes=[])
        while not self._is_ending:
            topic, number = self._rng.choice(self._topics.all)
            if may_change_count:
                self._change_count(topic, self._rng.choice((self._topics.replicas, len(self._founders))))
            elif self._rng.random() < _CANCEL_SHARE:
                self._cancel(topic, number)
            else:
                self._move(topic, number)
            until = time.monotonic() + _MOVE_PAUSE_SECONDS
            while time.monotonic() < until:
                yield
        if may_change_count:
            for topic in self._topics.names:
                while not self._change_count(topic, self._topics.replicas):
                    yield

    def _move(self, topic: str, number: int) -> None:
        held = self._admin.replicas(topic, number)
        target = self._rng.sample(list(self._cluster.nodes), self._topics.replicas)
        if len(held) != len(target):
            return
        wanted = {"topic": topic, "partition": number, "replicas": target}
        if self._admin.ask("/v1/moves", {"moves": [wanted]}).is_done:
            self._note("moved", tp=tp_of(topic, number), nodes=held, to=target)

    def _cancel(self, topic: str, number: int) -> None:
        body: dict[str, object] = {"partitions": [{"topic": topic, "partition": number}]}
        name = tp_of(topic, number)
        if self._rng.random() < _CANCEL_ALL_SHARE:
            body, name = {"all": True}, "all"
        if self._admin.ask("/v1/moves/cancel", body).is_done:
            self._note("cancelled", tp=name, nodes=[])

    def _change_count(self, topic: str, count: int) -> bool:
        answer = self._admin.ask(f"/v1/topics/{topic}/replication", {"replication_factor": count})
        if answer.is_done:
            self._note("count changed", topic=topic, count=count, nodes=[])
        return answer.is_done

    # -- brokers ------------------------------------------------------------------------------------------------

    def _drain(self, node: int) -> Script:
        self.at_work = node
        if not (yield from self._ask_broker(node, "drain")):
            return
        while not self._is_ending:
            yield
        yield from self._ask_broker(node, "undrain", for_ever=True)

    def _decommission(self, node: int) -> Script:
        self.at_work = node
        if not (yield from self._ask_broker(node, "decommission")):
            return
        while not self._is_ending:
            yield
        if self._is_empty(node):
            self._note("emptied", nodes=[node])
        yield from self._ask_broker(node, "recommission", for_ever=True)

    def _ask_broker(self, node: int, verb: str, *, for_ever: bool = False) -> Generator[None, None, bool]:
        """Ask until the answer is known; where nobody may refuse, until it is done. Returns whether it was."""
        while True:
            answer = self._admin.ask(f"/v1/brokers/{node}/{verb}", {})
            if answer.is_done:
                self._note(verb, nodes=[node])
                return True
            if answer.is_refused and not for_ever:
                self._note(f"{verb} refused", nodes=[node], said=answer.reason)
                return False
            yield

    def _is_empty(self, node: int) -> bool:
        told = self._admin.broker(node)
        return told is not None and told["replicas"] == 0 and told["raft0"] != "voter"

    def _join(self) -> Script:
        node = self.at_work = self._cluster.add()
        self._note("join", nodes=[node])
        while not self._cluster.is_serving(node):
            yield
        self._note("joined", nodes=[node])

    def _remove(self, node: int) -> Script:
        self.at_work = node
        self._note("remove", nodes=[node])
        if not (yield from self._ask_broker(node, "decommission")):
            return
        while not self._is_empty(node):
            yield
        while True:
            answer = self._admin.ask(f"/v1/brokers/{node}/remove", {}, but=(node,))
            # It is gone already where an earlier answer was lost.
            if answer.is_done or answer.status == 404:
                break
            yield
        self._cluster.remove(node)
        self.held.discard(node)
        self._note("removed", nodes=[node])

    # -- disks --------------------------------------------------------------------------------------------------

    def _replace_disk(self, node: int) -> Script:
        """Lose a disk, have its directory retired, and start with an empty one."""
        self.at_work = node
        self.held.add(node)
        self._cluster.kill(node)
        old = self._cluster.data_dir(node).with_name(f"data-old-{len(self._old_disks)}")
        self._cluster.data_dir(node).rename(old)
        self._note("replace-disk", nodes=[node])
        if not (yield from self._retire(node)):
            old.rename(self._cluster.data_dir(node))
            self._give_back(node)
            self._note("kept its disk", nodes=[node])
            return
        self._old_disks.append((node, old))
        self._give_back(node)
        while not (self._cluster.is_serving(node) and self._has_joined(node)):
            yield
        self._note("disk replaced", nodes=[node])

    def _retire(self, node: int) -> Generator[None, None, bool]:
        """Have the directory retired; returns False only where it certainly is not, and others may need it."""
        may_be_done = False
        since = time.monotonic()
        directory = ""
        while True:
            told = self._admin.broker(node)
            if told is not None and told["directory_retired"]:
                return True
            if told is not None:
                directory = str(told["directory_id"])
            if directory:
                verb = f"/v1/brokers/{node}/retire-directory"
                answer = self._admin.ask(verb, {"directory_id": directory}, but=(node,))
                if answer.is_done:
                    return True
                may_be_done |= not answer.is_refused
                if answer.is_refused and not may_be_done and time.monotonic() - since > _REFUSAL_SECONDS:
                    self._note("retirement refused", nodes=[node], said=answer.reason)
                    return False
            yield

    def _has_joined(self, node: int) -> bool:
        told = self._admin.broker(node)
        return told is not None and not told["directory_retired"] and bool(told["alive"])

    def _give_back(self, node: int) -> None:
        self.held.discard(node)
        if self._cluster.exit_code(node) is not None:
            self._cluster.start_again(node)

    def _old_disk_returns(self, node: int, old: Path) -> Script:
        """Start a broker with its retired directory: the others must refuse it. Then it gets its new one back."""
        self.at_work = node
        self.held.add(node)
        self._cluster.kill(node)
        data = self._cluster.data_dir(node)
        new = data.with_name("data-new")
        data.rename(new)
        old.rename(data)
        since = self._cluster.log_size(node)
        self._cluster.start_again(node)
        self._note("old-disk-returns", nodes=[node])
        until = time.monotonic() + _REFUSAL_SECONDS
        while time.monotonic() < until and not self._cluster.has_said(node, since, _REFUSED.encode()):
            if self._cluster.is_serving(node):
                self.problems.append(f"broker {node} served with a retired directory")
                break
            yield
        if self._cluster.has_said(node, since, _REFUSED.encode()):
            self._note("old disk refused", nodes=[node])
        self._cluster.kill(node)
        data.rename(old)
        new.rename(data)
        self._give_back(node)
