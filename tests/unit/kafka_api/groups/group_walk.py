"""A random walk of a group through all that may happen to it, in the words of `group_transcript`."""

from random import Random

from kafka_api.groups.group import Group, GroupState
from tests.unit.kafka_api.groups.group_transcript import Teller

_STEPS = 400
_NEW_GROUPS = ("group", "group delay=3", "restore 7", "restore 7 x=1", "restore 7 x/one=1", "restore 7 x=1 y=2")
_PROTOCOLS = ("range:1", "range:1", "range:2", "range:1,sticky:2", "sticky:1,range:2")


def walk(seed: int) -> Teller:
    """Return a group behind its walk; the same one for the same seed."""
    rng, teller = Random(seed), Teller()
    # Whether it was killed like those whose deletion may fail.
    was_empty = False
    for number in range(_STEPS):
        state = teller.group.state
        if state is GroupState.DEAD and rng.random() < 0.5:
            commands = ["revive" if was_empty else rng.choice(_NEW_GROUPS)]
        elif rng.random() < 0.03:
            was_empty, commands = state is GroupState.EMPTY, ["kill"]
        else:
            commands = _commands(rng, teller.group, number)
        teller.tell(commands)
    return teller


def _commands(rng: Random, group: Group, number: int) -> list[str]:
    ids = [each.member_id for each in group.members]
    someone = rng.choice([*ids, *group.pending, "nobody"])
    match rng.randrange(10):
        case 0 | 1 | 2 | 3:
            return [_join(rng, group, number)]
        case 4:
            return [f"leave {someone}"]
        case 5:
            return [f"sync s{number} {someone} {group.generation}"]
        case 6 if group._stores:
            return [f"stored {rng.choice([*group._stores])} {rng.choice(['NONE', 'NOT_COORDINATOR'])}"]
        case 7:
            asked = [f"sync s{number} {member} {group.generation}" for member in ids if rng.random() < 0.8]
            return [*asked, f"stored {group._store_number + 1}"]
        case _:
            alive = [f"heartbeat {member} {group.generation}" for member in ids if rng.random() < 0.8]
            return [f"after {rng.choice([0, 1, 3, 5, 8, 30])}", *alive]


def _join(rng: Random, group: Group, number: int) -> str:
    words = [f"join n{number}", f"session={rng.choice([4, 9, 30])}", f"rebalance={rng.choice([0, 2, 6, 20])}"]
    member = rng.choice([*group.members, None])
    protocols = rng.choice(_PROTOCOLS)
    if member is not None and rng.random() < 0.8:
        words += [f"id={member.member_id}"] if member.instance_id is None or rng.random() < 0.5 else []
        words += [f"instance={member.instance_id}"] if member.instance_id else []
        if rng.random() < 0.5:
            protocols = ",".join(f"{name}:{metadata.decode()}" for name, metadata in member.protocols)
    elif group.pending and rng.random() < 0.7:
        words.append(f"id={rng.choice([*group.pending])}")
    else:
        words += rng.choice([[], [], ["instance=one"], ["instance=two"]]) + rng.choice([[], ["knows"]])
    return " ".join([*words, f"protocols={protocols}"])
