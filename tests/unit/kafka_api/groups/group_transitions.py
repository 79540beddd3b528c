"""What happens to a consumer group, by names, and the table of its transitions.

A transition is the group's state before a call, what happened, and its state after the call. Something that is refused
is none. One that leaves the state alone is one all the same, if the group has taken notice; but who syncs, commits or
says that it is alive is only answered.

A call may go through a state: where everybody has joined with the only member, a join leads from EMPTY to COMPLETING.
"""

from typing import NamedTuple

from kafka_api.groups.group import Group, GroupState
from kafka_api.groups.group_events import Join

# Before it is restored.
NO_GROUP = "-"


class Transition(NamedTuple):
    """States by the names that clients are told."""

    before: str
    event: str
    after: str


_STATES = {state.name[0]: state.value for state in GroupState} | {NO_GROUP: NO_GROUP}
# By what happens: from which state to which. EMPTY, PREPARING, COMPLETING, STABLE and DEAD by their first letters.
_TABLE = {
    "restore": "->E ->S",
    "join that asks for an id": "E>E P>P C>C S>S",
    "join, new": "E>P E>C P>P P>C C>P S>P",
    "join of the leader, same protocols": "P>P P>C C>C S>P S>C",
    "join of a member, same protocols": "P>P P>C C>C S>S",
    "join of a member, other protocols": "P>P P>C C>P C>C S>P S>C",
    "join of a static member without id": "P>P P>C C>P C>C S>P S>C S>S",
    "leave": "P>E P>P P>C C>E C>P S>E S>P",
    "leave before the join": "E>E P>E P>P P>C C>C S>S",
    "no join with an id": "E>E P>E P>P P>C C>C S>S",
    "silence": "P>E P>P P>C C>E C>P S>E S>P",
    "no sync in time": "C>E C>P S>P",
    "the initial delay is over": "P>E P>P P>C",
    "the rebalance timeout": "P>E P>P P>C",
    "stored": "E>E P>P C>C C>S S>S D>D",
    "not stored": "E>E P>P C>P C>C S>S D>D",
    "kill": "E>D P>D C>D S>D D>D",
    "revive": "D>E",
}
TRANSITIONS = {
    Transition(_STATES[step[0]], event, _STATES[step[-1]]) for event, steps in _TABLE.items() for step in steps.split()
}
# Between the names of what happens at one and the same time.
_AND = " and "


def is_listed(transition: Transition) -> bool:
    """Whether the table has it; of several things that are due at once one may lead there."""
    return any(transition._replace(event=event) in TRANSITIONS for event in transition.event.split(_AND))


def join_event(group: Group, request: Join) -> str:
    """Return what a join is to a group that takes it."""
    known = group.members.get(request.member_id) if request.member_id else group.members.static(request.instance_id)
    if known is None:
        asks_for_id = not request.member_id and request.must_know_id and request.instance_id is None
        return "join that asks for an id" if asks_for_id else "join, new"
    if not request.member_id:
        return "join of a static member without id"
    if known.protocols != request.protocols:
        return "join of a member, other protocols"
    return f"join of {'the leader' if known.member_id == group.members.leader else 'a member'}, same protocols"


def due_event(group: Group, now: float) -> str:
    """Return what a group will find at this time that it has waited for long enough; nothing may be due."""
    silent = {each.member_id for each in group.members if each.session_deadline <= now and not each.keeps_alive()}
    events = []
    if any(deadline <= now for deadline in group.pending.values()):
        events.append("no join with an id")
    if silent:
        events.append("silence")
    if group._sync_deadline <= now and group._unsynced - silent:
        events.append("no sync in time")
    if group._window.deadline <= now and group.state is GroupState.PREPARING:
        events.append("the initial delay is over" if group._window.waits_for_more else "the rebalance timeout")
    return _AND.join(events)
