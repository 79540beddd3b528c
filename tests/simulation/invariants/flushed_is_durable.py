"""RFC 0002 section 5: what counts as flushed is what an fsync has covered, of the file and of its name."""

from collections.abc import Sequence

from model.ids import Replica
from storage.entry import parse_entries
from storage.errors import CorruptEntryError
from storage.segment import Segment
from tests.simulation.invariants.invariant import Invariant
from tests.simulation.world.replica_view import Ghost, ReplicaView, Standing
from tests.simulation.world.sim_disk import Inode

_Key = tuple[str, Replica]


class FlushedIsDurable(Invariant):
    """Were the power lost now, everything that a replica has reported as flushed would still be whole on its disk."""

    def __init__(self, history):
        super().__init__(history)
        # Per replica: how far the newest segment reached when which entry was the last, oldest first.
        self._ends: dict[_Key, list[tuple[int, Segment, int]]] = {}
        # Up to where the bytes of a file were compared.
        self._compared: dict[Inode, int] = {}

    def on_opened(self, view: ReplicaView, former: ReplicaView | None) -> None:
        self._ends[(view.group, view.replica)] = []
        # What has rotted since it was flushed is no news here, nor whether it can be read.
        self._compare(view, 0, is_read=False)

    def on_appended(self, view: ReplicaView, added: Sequence[Ghost]) -> None:
        newest = view.consensus.log._segments[-1]
        self._ends.setdefault((view.group, view.replica), []).append((view.now.last, newest, newest.size))

    def on_truncated(self, view: ReplicaView, removed: Sequence[Ghost], before: Standing) -> None:
        ends = self._ends.setdefault((view.group, view.replica), [])
        kept = min(view.now.last, removed[0].index - 1)
        while ends and ends[-1][0] > kept:
            ends.pop()
        for segment in view.consensus.log._segments:
            inode = _inode_of(view, segment)
            self._compared[inode] = min(self._compared.get(inode, 0), segment.size)

    def on_moved(self, view: ReplicaView, before: Standing) -> None:
        if view.now.flushed > before.flushed:
            self._compare(view, before.flushed, is_read=True)

    def _compare(self, view: ReplicaView, before: int, *, is_read: bool) -> None:
        flushed = view.now.flushed
        reached = self._reached(view)
        for segment in reversed(view.consensus.log._segments):
            if segment.last_index <= before:
                return
            if segment.base_index <= flushed:
                end = segment.size if segment.last_index <= flushed else reached.get(segment.path, 0)
                self._compare_segment(view, segment, end, is_read=is_read)

    def _reached(self, view: ReplicaView) -> dict[str, int]:
        """Return where the flushed entries of the segment end that holds the newest of them, as far as was seen."""
        ends = self._ends.setdefault((view.group, view.replica), [])
        last = None
        while ends and ends[0][0] <= view.now.flushed:
            last = ends.pop(0)
        return {} if last is None else {last[1].path: last[2]}

    def _compare_segment(self, view: ReplicaView, segment: Segment, end: int, *, is_read: bool) -> None:
        inode = _inode_of(view, segment)
        begin = self._compared.get(inode, 0)
        if begin == 0 and not self._is_durable_name(view, segment.path, inode):
            self.violated(view, f"the name of {segment.name} is not durable, flushed is {view.now.flushed}")
        if inode.data[begin:end] != inode.durable[begin:end]:
            self.violated(view, f"{segment.name} is not durable in [{begin}, {end}), flushed is {view.now.flushed}")
        if is_read and begin < end:
            try:
                sum(1 for _ in parse_entries(memoryview(bytes(inode.durable[begin:end]))))
            except CorruptEntryError as error:
                self.violated(view, f"{segment.name}, byte {begin}: {error}, flushed is {view.now.flushed}")
        self._compared[inode] = max(begin, end)

    @staticmethod
    def _is_durable_name(view: ReplicaView, path: str, inode: Inode) -> bool:
        return view.consensus.log._context.env.files.durable_inode(path) is inode


def _inode_of(view: ReplicaView, segment: Segment) -> Inode:
    inode = view.consensus.log._context.env.files.inode(segment.path)
    assert inode is not None
    return inode
