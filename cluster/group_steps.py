"""Steps of groups that wait for the disk: several groups at once, one step at a time for each."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence

from model.ids import GroupId
from runtime.gate import Gate

_logger = logging.getLogger("cluster")
# Steps of so many groups are under way at once: each waits for fsyncs most of the time, and they share those of the
# kvstore.
_STEPS_AT_ONCE = 16
# A step that takes longer is left to end by itself, and the groups behind it take their turns.
PATIENCE = 5.0

Step = Callable[[], Coroutine[None, None, None]]


class GroupSteps:
    """See the module.

    Args:
        gate: Its tasks run the steps.
        name_of: What to call a group in a line of the log.
        on_late: Called when a step ends that nobody waits for any more.
    """

    def __init__(self, gate: Gate, name_of: Callable[[GroupId], str], on_late: Callable[[], None]) -> None:
        self._gate = gate
        self._name_of = name_of
        self._on_late = on_late
        # Groups that are being opened, closed or removed: one step at a time for each, as GroupManager asks.
        self.under_way: dict[GroupId, asyncio.Future[None]] = {}

    async def run(self, what: str, steps: Mapping[GroupId, Step]) -> None:
        """Run a step for each group, several at once; one that hangs is left alone, and the others go on."""
        due = [(group, step) for group, step in steps.items() if group not in self.under_way]
        while due and len(self.under_way) < _STEPS_AT_ONCE:
            places = _STEPS_AT_ONCE - len(self.under_way)
            begun = {group: self.begin(group, step) for group, step in due[:places]}
            del due[:places]
            try:
                async with asyncio.timeout(PATIENCE):
                    for done in begun.values():
                        await asyncio.shield(done)
            except TimeoutError:
                self._tell_late(what, [group for group, done in begun.items() if not done.done()])

    def _tell_late(self, what: str, late: Sequence[GroupId]) -> None:
        more = f" and {len(late) - 1} more" if len(late) > 1 else ""
        name = self._name_of(late[0])
        # A machine that is merely busy looks the same from here.
        _logger.warning("%s %s%s has not ended for %g s: the disk or the host is slow", what, name, more, PATIENCE)

    def begin(self, group: GroupId, step: Step) -> asyncio.Future[None]:
        """Begin a step of a group that has none under way; return what is done when it ends."""
        # One step at a time for each group: a removal beside an open would leave a replica without its directory.
        assert group not in self.under_way
        done = self.under_way[group] = asyncio.get_running_loop().create_future()
        self._gate.spawn(self._complete(group, step, done), name=f"reconcile {group}")
        return done

    async def _complete(self, group: GroupId, step: Step, done: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await step()
        finally:
            del self.under_way[group]
            done.set_result(None)
            if loop.time() - began >= PATIENCE:
                # Nobody waits for it any more, and what was to follow it has been passed over.
                self._on_late()
