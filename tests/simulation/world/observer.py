"""Compares every replica with what was known of it, after each step of its node, and tells the invariants."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from cluster.controller_state import ControllerState
from cluster.events import Event
from cluster.groups.offsets_log_state import OffsetsLogState
from cluster.health_counts import ClusterCounts, LedCounts
from cluster.node import Node
from kafka_api.groups.coordinated_partition import CoordinatedPartition
from kafka_api.groups.lag import LagReport
from model.ids import RAFT0, ConsistencyLevel, GroupId
from raft.consensus import Consensus
from raft.group_configuration import Revision
from raft.replica_state import Role
from raft.replicate_item import ReplicateResult
from storage.entry import EntryKind
from storage.segment import Segment
from storage.snapshot_file import Snapshot
from tests.simulation.clients.history import History, VoterSets, is_majority_of
from tests.simulation.invariants import ALL
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.power_losses import PowerLosses
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing, may_follow, voter_sets_of

_METHODS = [*(name for name in vars(Invariant) if name.startswith("on_")), "at_end"]


class Observer:
    """One run's observer. Nothing in it touches the world: it neither draws, waits nor schedules."""

    def __init__(self, history: History) -> None:
        self.history = history
        # For each of Invariant's methods, those who have one of their own: most are told nothing of most things.
        self._told: dict[str, list[Callable[..., None]]] = {name: [] for name in _METHODS}
        for make in ALL:
            self.add(make(history))
        # By node id and group.
        self._views: defaultdict[int, dict[GroupId, ReplicaView]] = defaultdict(dict)
        # Those of disks that are in no machine now, by node id and disk.
        self._put_away: dict[tuple[int, object], dict[GroupId, ReplicaView]] = {}
        self._deleted: set[GroupId] = set()
        self._power_losses = PowerLosses(history)

    def add(self, invariant: Invariant) -> None:
        """Tell one more invariant from now on."""
        for name, told in self._told.items():
            if getattr(type(invariant), name) is not getattr(Invariant, name):
                told.append(getattr(invariant, name))

    def observe(self, node: Node, node_id: int, life: int) -> None:
        """Look at all replicas of a node."""
        groups = getattr(node, "groups", None)
        if groups is None:
            return
        views = self._views[node_id]
        for group, consensus in groups._groups.items():
            view = views.get(group)
            if view is not None and view.consensus is consensus:
                # Most steps move nothing of most replicas, so this is no call: it runs a thousand times a virtual second.
                now, state, log = view.now, consensus.state, consensus.log
                if (
                    log.dirty_index == now.last
                    and state.commit_index == now.commit
                    and state.term == now.term
                    and state.role is now.role
                    and state.visible_index == now.visible
                    and log.flushed_index == now.flushed
                    and log.truncations == now.truncations
                    and log.start is now.start
                ):
                    continue
            if group in self._deleted:
                continue
            if view is None or view.consensus is not consensus:
                view = self._open(node_id, life, group, consensus, view)
            self._compare(view)

    def removed(self, node_id: int, group: GroupId, *, is_in_table: bool) -> None:
        """A broker removes its replica of a group: its topic is deleted, and nobody promises anything about it any more.

        A broker that has removed its replica may begin another, empty one before it has applied the deletion again.
        """
        self._each("on_removed", node_id, group, is_in_table=is_in_table)
        self._deleted.add(group)

    def left(self, node: Node, group: GroupId, revision: Revision | None) -> None:
        """A broker is about to delete its replica of a group that goes on elsewhere; its gravestone is durable.

        What begins there later is another replica, with the vote of this one.
        """
        if group in self._deleted:
            return
        node_id = node.options.node_id
        view = self._views[node_id].pop(group, None)
        self.history.counts["replicas that left"] += view is not None
        self._each("on_left", node, view, group, revision)

    def power_lost(self, node_id: int) -> None:
        """A machine that has lived up to now has lost its power, and with it what was not fsynced."""
        self.history.lost_power[node_id] = None
        for group, view in self._views[node_id].items():
            if group in self._deleted:
                continue
            self._release(self._power_losses.lost(view, self._replicas(group)), group)

    def _release(self, released: list[Ghost], group: GroupId) -> None:
        if released:
            self.history.counts["visible entries released by a power loss"] += len(released)
            self._each("on_power_lost", group, released)

    def disk_lost(self, node_id: int) -> None:
        """The disk of a machine that is off is gone for good, and with it all that its replicas held."""
        self.history.lost_power[node_id] = None
        for group, view in self._views[node_id].items():
            if group not in self._deleted:
                self._release(self._power_losses.lost(view, self._replicas(group), with_disk=True), group)
                self._each("on_disk_lost", view)

    def disk_taken_out(self, node_id: int) -> None:
        """The machine of a broker that was removed is off; its disk comes back only as that of a stranger."""
        for group, view in self._views[node_id].items():
            if group not in self._deleted:
                self._each("on_disk_taken_out", view)

    def disk_changed(self, node_id: int, taken_out: object, put_in: object) -> None:
        """A machine that is off has got another disk: its replicas are those of that disk from now on.

        `taken_out` and `put_in` tell the disks of a machine apart.
        """
        self._put_away[node_id, taken_out] = self._views.pop(node_id, {})
        self._views[node_id] = self._put_away.pop((node_id, put_in), {})

    def replicas(self) -> list[ReplicaView]:
        """Return every replica of groups that are there, on all disks that are in a machine."""
        return [view for views in self._views.values() for group, view in views.items() if group not in self._deleted]

    def view_of(self, node_id: int, group: GroupId) -> ReplicaView:
        """Return what is known of a replica."""
        return self._views[node_id][group]

    def answered(
        self, node_id: int, group: GroupId, level: ConsistencyLevel, content: bytes, result: ReplicateResult
    ) -> None:
        """A producer on a node has got a success."""
        if group in self._deleted:
            return
        self._each("on_answered", self._views[node_id][group], level, content, result)

    def read(self, node_id: int, group: GroupId, offset: int, record_count: int, content: bytes) -> None:
        """A consumer on a node has got a batch."""
        # One that has left answers with what it has read before.
        if group in self._deleted or group not in self._views[node_id]:
            return
        self._each("on_read", self._views[node_id][group], offset, record_count, content)

    def damaged_answer(self, host: str, group: GroupId, reason: str, *, has_rotted: bool) -> None:
        """A consumer has got a damaged batch from the broker at a host."""
        if group not in self._deleted:
            self._each("on_damaged_answer", host, group, reason, has_rotted=has_rotted)

    def latest(self, group: GroupId, committed: int, end: int) -> None:
        """A client has got the latest offset; `committed` entries were committed when it asked."""
        if group not in self._deleted:
            self._each("on_latest", group, committed, end)

    def told_end(self, group: GroupId, end: int) -> None:
        """A client has got the latest offset or a high watermark."""
        if group not in self._deleted:
            self._each("on_told_end", group, end)

    def group_offset(self, group: GroupId, offset: int) -> None:
        """A consumer group has committed an offset, or was told what it had committed."""
        if group not in self._deleted:
            self._each("on_group_offset", group, offset)

    def registered(self, node_id: int, committed: int, covered: int) -> None:
        """raft0's leader has answered a broker's registration: see `Invariant.on_registered`."""
        self._each("on_registered", node_id, committed, covered)

    def event(self, node: Node, life: int, event: Event) -> None:
        """A broker has recorded an event: see `Invariant.on_event`."""
        self._each("on_event", node, life, event)

    def counted(self, node: Node, life: int, led: LedCounts, cluster: ClusterCounts | None) -> None:
        """A broker was asked what it counts."""
        self._each("on_counted", node, life, led, cluster)

    def lag(self, node: Node, active: CoordinatedPartition, ends: Mapping[GroupId, int], report: LagReport) -> None:
        """A coordinator has compared a group with the ends that it knows."""
        kept = {group: end for group, end in ends.items() if group not in self._deleted}
        if len(kept) == len(ends):
            self._each("on_lag", node, active, ends, report)

    def lag_reports(self, node: Node, reports: Sequence[LagReport]) -> None:
        """A broker was asked how far its groups are behind."""
        self._each("on_lag_reports", node, reports)

    def quiet(self, seconds: float) -> None:
        """Every broker is up and all faults are mended."""
        for group in sorted({group for views in self._views.values() for group in views} - self._deleted):
            self._each("on_quiet", seconds, group, self._replicas(group))

    def look(self, node_id: int, life: int, now: float) -> None:
        """The process of a node runs, is in its n-th life, and has this clock."""
        for group, view in self._views[node_id].items():
            if view.life == life and group not in self._deleted:
                self._each("on_look", now, view)

    def look_at_links(self, node: Node) -> None:
        """The process of a node runs: with whom has it links?"""
        if hasattr(node, "controller"):
            peers = [each.peer for each in node.links._connections._open if each.is_open]
            self._each("on_links", node, [peer for peer in peers if peer is not None and peer.is_founded])

    def at_end(self) -> None:
        """The run has ended, with every node up."""
        for views in self._views.values():
            for group, view in views.items():
                if group not in self._deleted:
                    self._tell_table(view)
        self._each("at_end")

    def _tell_table(self, view: ReplicaView) -> None:
        stepped = view.consensus._log_state._stepped
        if isinstance(stepped.state, OffsetsLogState):
            # A table of groups keeps no order, so neither does a comparison.
            records = stepped.state.table._records()
            rows = tuple(sorted(b"%d %b%b" % (len(each.key), each.key, each.value or b"") for each in records))
            rows += tuple(repr(each).encode() for each in sorted(stepped.state.table.pending))
        elif isinstance(stepped.state, ControllerState):
            rows = tuple(stepped.state.snapshot())
        else:
            return
        self._each("on_table", view, stepped.applied_index, rows)

    def _open(
        self, node_id: int, life: int, group: GroupId, consensus: Consensus, former: ReplicaView | None
    ) -> ReplicaView:
        view = ReplicaView(node_id, life, group, consensus, Standing.of(consensus), self.history.committed_in(group))
        view.read_back(former)
        self.history.voter_sets.setdefault(group, view.voter_sets)
        self._views[node_id][group] = view
        self._power_losses.opened(view)
        self._watch_votes(view)
        self._watch_snapshots(view)
        self._watch_swaps(view)
        stepped = consensus._log_state._stepped
        state = b"".join(stepped.state.snapshot())
        found = Snapshot(consensus.log.start, stepped.applied_index, stepped.applied_term, state)
        self._each("on_opened", view, former)
        self._each("on_snapshot", view, found)
        self._tell_compacted(view)
        return view

    def _tell_compacted(self, view: ReplicaView) -> None:
        if view.compacted:
            entries, view.compacted = view.compacted, []
            self._each("on_compacted", view, entries)

    def _watch_votes(self, view: ReplicaView) -> None:
        voter = view.consensus.voter
        answer = voter.answer

        async def watched(candidate, request):
            reply = await answer(candidate, request)
            if reply.granted and not request.pre:
                self._each("on_vote", view, request.term, candidate)
            return reply

        voter.answer = watched

    def _watch_snapshots(self, view: ReplicaView) -> None:
        log = view.consensus.log
        save, install = log.save_snapshot, log.install

        async def saved(snapshot):
            # What is in it may have been committed in this very step.
            self._compare(view)
            self._each("on_snapshot", view, snapshot)
            await save(snapshot)

        async def installed(snapshot):
            self.history.counts["snapshots installed"] += 1
            self._each("on_snapshot", view, snapshot)
            return await install(snapshot)

        log.save_snapshot, log.install = saved, installed

    def _watch_swaps(self, view: ReplicaView) -> None:
        compaction = view.consensus.log.compaction
        replace = compaction._replace

        def replaced(sources: list[Segment], segment: Segment) -> None:
            replace(sources, segment)
            if view.group in self._deleted:
                return
            view.compacted = view.entries_of(segment)
            if view.compacted:
                self._each("on_swapped", view, segment, view.compacted)
                self._tell_compacted(view)

        compaction._replace = replaced

    def _compare(self, view: ReplicaView) -> None:
        before = view.now
        now = view.now = Standing.of(view.consensus)
        if now == before:
            return
        sets_before = view.voter_sets
        if now.truncations != before.truncations:
            self._truncated(view, before)
        if now.last > len(view.entries):
            added = view.take_appended()
            self._each("on_appended", view, added)
            self._tell_compacted(view)
        if now.role is Role.LEADER and (before.role is not Role.LEADER or before.term != now.term):
            self.history.counts["elections"] += 1
            self._each("on_elected", view)
        self._committed(view, sets_before)
        if now.role is Role.LEADER and now.visible > before.visible:
            self._shown(view, before)
        self._each("on_moved", view, before)

    def _truncated(self, view: ReplicaView, before: Standing) -> None:
        # Everything that is still below the new end and was there before the cut keeps its place; what was cut and
        # written again since is found by its term.
        kept = len(view.entries)
        log = view.consensus.log
        below = log.start_index - 1
        while kept > below and (kept > log.dirty_index or log.term_at(kept) != view.entries[kept - 1].term):
            kept -= 1
        gold = self.history.committed_in(view.group)
        if kept <= below:
            # A snapshot was installed: what was committed stands in the place of all that differs from it.
            kept = min(kept, len(gold))
            while view.chain_at(kept) != (gold[kept - 1].chain if kept else b""):
                kept -= 1
        removed = view.entries[kept:]
        view.entries[kept:] = gold[kept:below]
        if view.configured or any(ghost.configuration for ghost in gold[kept:below]):
            view.find_configurations()
        if removed:
            self.history.counts["truncations"] += 1
            self.history.counts["data truncated"] += sum(ghost.kind is EntryKind.DATA for ghost in removed)
            self._each("on_truncated", view, removed, before)

    def _committed(self, view: ReplicaView, sets_before: VoterSets) -> None:
        gold = self.history.committed_in(view.group)
        if view.now.commit > len(gold):
            # Only what agrees with the chain so far may extend it; StateMachineSafety reports what does not.
            if view.chain_at(len(gold)) != (gold[-1].chain if gold else b""):
                return
            new = view.entries[len(gold) : view.now.commit]
            self._note_deciders(view, sets_before, new[-1])
            if view.group != RAFT0 and not view.name.startswith("__"):
                data = [each for each in view.written(new[0].index, new[-1].index) if each.kind is EntryKind.DATA]
                payloads = {int(each.index): bytes(each.payload) for each in data}
                self.history.original_log(view.group).add(new, payloads)
            gold.extend(new)
            self.history.commit_terms_in(view.group).extend([view.now.term] * len(new))
            self._each("on_committed", view, new)

    def _note_deciders(self, view: ReplicaView, sets_before: VoterSets, newest: Ghost) -> None:
        """Note by which voters an entry is committed: those in force.

        A configuration may get its place in the log in the very step in which an entry before it is committed, as
        often after as before that. Then one of both has done it. It is in force as soon as it has its place, which is
        before its entry is written (seed 221): also then it comes behind a committed one.
        """
        sets = view.voter_sets
        possible = [sets]
        if sets != sets_before and view.configured and view.configured[-1].index > newest.index:
            possible.insert(0, sets_before)
        in_force = voter_sets_of(view.consensus.configuration)
        is_next = not view.configured or view.configured[-1].index <= view.now.commit
        if in_force != sets and is_next and may_follow(sets, in_force):
            possible.append(in_force)
        if len(possible) > 1:
            holders = [
                each.replica
                for each in self._replicas(view.group)
                if each.now.flushed >= newest.index and each.chain_at(newest.index) == newest.chain
            ]
            sets = next((each for each in possible if is_majority_of(each, holders)), sets)
        self.history.voter_sets[view.group] = self.history.deciders[view.group] = sets

    def _shown(self, view: ReplicaView, before: Standing) -> None:
        self.history.voter_sets[view.group] = view.voter_sets
        released = self._power_losses.shown_late(view, before.visible + 1, self._replicas(view.group))
        if released:
            self.history.counts["visible entries that a power loss had taken before"] += len(released)
            self._each("on_power_lost", view.group, released)

    def _replicas(self, group: GroupId) -> list[ReplicaView]:
        return [views[group] for views in self._views.values() if group in views]

    def _each(self, method: str, *arguments: object, **named: object) -> None:
        for tell in self._told[method]:
            tell(*arguments, **named)
