"""Transcripts: stories as text, a script and what it prints, compared word by word.

    # Why this block is here.
    replicate 1 a quorum_ack          <- commands, one per line
    deliver
    ---
    a enqueued                        <- what they print, up to the next blank line
    n1 -> n2 append t1 after ...

`REWRITE_TRANSCRIPTS=1 pytest tests/unit/raft/test_transcripts.py` writes what is printed now into the files; read
the difference before you keep it.

Commands (nodes by number; the seconds are virtual and pass only in `after`):

    cluster N [option=value ...]            N replicas that have not started; options of RaftOptions, min_in_sync
    voters N ...                            who has founded the group, if not all of the cluster
    log N TERM[xCOUNT] ...                  the log a replica starts with; with a count, placeholders for so many entries
    vote N TERM [VOTED]                     the vote a replica starts with
    start [N ...] / stop N                  begin and end lives; the first replica of a new group stands at once
    elect N                                 a whole election with nobody hearing a leader; prints its end only
    stand N                                 the replica's election deadline is due
    replicate N NAME LEVEL [size=BYTES] [term=T] [within=SECONDS]
    deliver [A->B | A<->B ...]              messages arrive, oldest first, until none (of these links) is in flight
    burst A->B                              all messages of a link arrive in one instant
    lose [A->B ...]                         messages in flight are lost, their senders learn it
    cut N / heal N                          the node has no links; what is in flight is lost
    reset A B                               the link was lost and works again, both ends learn it
    hold N POOL / release N POOL            the node's jobs of a worker pool (append, fsync, kvstore) stand still
    fail N OPERATION [ERRNO]                the node's next write or fsync fails
    room N BYTES                            the node looks at its disk and finds so many bytes free
    levels N min_in_sync=K caching=0|1      what answers wait for, from now on
    beat N / check-quorum N                 what a heartbeat tick does
    clean N I                               N's log is compacted up to I, for all that it tells
    bounds N                                the leader asks how far its followers are clean, and tells the bound
    step-down N
    transfer N [TARGET] / leave N           N hands over; N is about to be stopped
    read N NAME                             a linearizable read begins at N
    move-start N INDEX [OFFSET]             the leader proposes that the log starts there
    say A->B vote|pre-vote term=T end=I@T
    say A->B append term=T after=I@T [entries=T[xCOUNT],..] [commit=I] [visible=I] [flush]
    say A->B snapshot term=T start=I offset=O after=T applied=I@T [compacted=I]
    say A->B beat term=T [at=I@T] [commit=I] [visible=I]
    aim N,.. [revision=R] [retired=N,..] [at=N,..]  replicas learn which voters are wanted, all that run or those `at`
    tick [COUNT]                            heartbeats of who leads, everything arrives, time passes; beats are not told
    members [N ...]                         the configuration in force, and what a leader waits for
    settle                                  everything goes on that can without time passing
    after SECONDS                           time passes
    status [N ...]                          the state of replicas; a leader also tells what it knows of its followers
    wire / probe N NAME ...
"""

import asyncio
import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from model.ids import ConsistencyLevel, Index, Offset, Replica, Term
from raft.group_configuration import GroupConfiguration, RaftPolicy, Revision
from raft.membership_steps import Target
from raft.messages import AppendEntriesRequest, Heartbeat, HeartbeatRequest, InstallSnapshotRequest, VoteRequest
from raft.options import RaftOptions
from runtime.workers import Pool
from storage.entry import pack_header
from storage.log_start import LogStart
from storage.snapshot_file import Snapshot, snapshot_checksum
from tests.unit.raft.message_wire import Message, render_configuration, replica
from tests.unit.raft.stage import GROUP, Stage, entries_after

_DEFAULT_SIZE = 100


@dataclass(slots=True)
class Block:
    """Lines as they stand in the file: comments and commands, and the output that was printed."""

    script: list[str]
    output: list[str]

    def __str__(self) -> str:
        return "\n".join([*self.script, "---", *self.output] if self.commands else self.script)

    @property
    def commands(self) -> list[str]:
        return [line for line in self.script if line and not line.startswith("#")]


def parse(text: str) -> list[Block]:
    """Return the blocks of a transcript."""
    blocks = []
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        at = lines.index("---") if "---" in lines else len(lines)
        blocks.append(Block(lines[:at], lines[at + 1 :]))
    return blocks


def replay(text: str) -> str:
    """Return the transcript with what its commands print now."""
    blocks = parse(text)
    teller = Teller()
    try:
        for block in blocks:
            block.output = teller.tell(block.commands)
    finally:
        teller.close()
    return "\n\n".join(map(str, blocks)) + "\n"


class Teller:
    """Runs the commands of one transcript."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._commands: dict[str, Callable[..., None]] = {
            name.removeprefix("do_").replace("_", "-"): getattr(self, name)
            for name in dir(self)
            if name.startswith("do_")
        }

    def close(self) -> None:
        if self._stage is not None:
            self._stage.__exit__()

    @property
    def stage(self) -> Stage:
        assert self._stage is not None, "a transcript begins with `cluster`"
        return self._stage

    def tell(self, commands: list[str]) -> list[str]:
        """Run the commands of one block and return what they print."""
        for command in commands:
            name, *words = command.split()
            plain = [word for word in words if "=" not in word]
            options = dict(word.split("=", 1) for word in words if "=" in word)
            self._commands[name](*plain, **options)
        if not commands:
            return []
        self.stage.settle()
        printed, self.stage.events[:] = list(self.stage.events), []
        return printed

    def _print(self, *lines: str) -> None:
        self.stage.events.extend(lines)

    # -- before the start ---------------------------------------------------------------------------------------

    def do_cluster(self, nodes: str, *, min_in_sync: str = "1", **options: str) -> None:
        kinds: dict[str, Any] = {field.name: field.type for field in fields(RaftOptions)}
        # No draws: a story says itself who stands when.
        drawn: dict[str, Any] = {"election_jitter": 0.0}
        drawn |= {name: kinds[name](value) for name, value in options.items()}
        self._stage = Stage(int(nodes), RaftOptions(**drawn), int(min_in_sync))

    def do_voters(self, *nodes: str) -> None:
        self.stage.configuration = GroupConfiguration.of(_replicas(nodes))

    def do_log(self, node: str, *terms: str) -> None:
        self.stage.write_log(int(node), *_terms_and_counts(terms))

    def do_vote(self, node: str, term: str, voted_for: str | None = None) -> None:
        self.stage.write_vote(int(node), int(term), None if voted_for is None else int(voted_for))

    # -- lives --------------------------------------------------------------------------------------------------

    def do_start(self, *nodes: str) -> None:
        for node in nodes or self.stage.actors:
            self.stage.start(int(node))

    def do_stop(self, node: str) -> None:
        self.stage.settle()
        self.stage.stop(int(node))
        self.stage.settle()

    def do_settle(self) -> None:
        self.stage.settle()

    def do_stand(self, node: str) -> None:
        self.stage.stand(int(node))
        self.stage.settle()

    def do_elect(self, node: str) -> None:
        self.stage.settle()
        self.stage.elect(int(node))

    def do_step_down(self, node: str) -> None:
        self.stage.call(lambda: self.stage.replica(int(node)).step_down("the script says so"))
        self.stage.settle()

    def do_transfer(self, node: str, target: str | None = None) -> None:
        self.stage.settle()
        self.stage.transfer(int(node), None if target is None else int(target))
        self.stage.settle()

    def do_leave(self, node: str) -> None:
        self.stage.call(self.stage.replica(int(node)).voter.leave)
        self.stage.settle()

    def do_read(self, node: str, name: str) -> None:
        self.stage.read(int(node), name)

    def do_move_start(self, node: str, index: str, offset: str = "0") -> None:
        self.stage.move_start(int(node), int(index), int(offset))
        self.stage.settle()

    def do_check_quorum(self, node: str) -> None:
        self.stage.call(self.stage.replica(int(node)).watch.check)
        self.stage.settle()

    def do_room(self, node: str, free_bytes: str) -> None:
        self.stage.actors[int(node)].limits.disk.update_free(int(free_bytes))

    def do_levels(self, node: str, *, min_in_sync: str = "1", caching: str = "0") -> None:
        self.stage.call(
            lambda: self.stage.replica(int(node)).apply_policy(
                RaftPolicy(int(min_in_sync)), write_caching=caching == "1"
            )
        )
        self.stage.settle()

    def do_after(self, seconds: str) -> None:
        self.stage.settle()
        self.stage.advance(float(seconds))

    # -- members ------------------------------------------------------------------------------------------------

    def do_aim(self, voters: str, *, revision: str = "1", retired: str = "", at: str = "") -> None:
        gone = frozenset(each.directory_id for each in _replicas(retired.split(",") if retired else ()))
        target = Target(_replicas(voters.split(",")), Revision(0, int(revision)), gone)
        for node, actor in self.stage.actors.items():
            if actor.consensus is not None and (not at or str(node) in at.split(",")):
                self.stage.call(lambda consensus=actor.consensus: consensus.reconfigure(target))
        self.stage.settle()

    def do_tick(self, count: str = "1") -> None:
        for _ in range(int(count)):
            spoken = len(self.stage.events)
            for node, actor in self.stage.actors.items():
                if actor.consensus is not None and actor.consensus.state.is_leader:
                    self.do_check_quorum(str(node))
                    self.stage.beat(node)
            self.stage.settle()
            self.stage.deliver(lambda _: True)
            self.stage.advance(self.stage.options.heartbeat_interval)
            self.stage.deliver(lambda _: True)
            self.stage.events[spoken:] = [line for line in self.stage.events[spoken:] if " beat " not in line]

    def do_members(self, *nodes: str) -> None:
        self.stage.settle()
        for node in nodes or self.stage.actors:
            consensus = self.stage.replica(int(node))
            line = f"n{node} {render_configuration(consensus.configuration)}"
            if not consensus.state.configurations.is_committed:
                line += ", not committed"
            if consensus.reconfiguration.waits_for:
                line += f", waits: {consensus.reconfiguration.waits_for}"
            self._print(line)

    # -- writes: several in a row reach the batcher before anything else goes on --------------------------------

    def do_replicate(self, node: str, name: str, level: str, **options: str) -> None:
        self.stage.replicate(
            *(int(node), name, ConsistencyLevel[level.upper()]),
            size=int(options.get("size", _DEFAULT_SIZE)),
            term=Term(int(options["term"])) if "term" in options else None,
            within=float(options["within"]) if "within" in options else None,
        )

    # -- the wire -----------------------------------------------------------------------------------------------

    def do_deliver(self, *links: str) -> None:
        self.stage.settle()
        self.stage.deliver(_on_links(links))

    def do_burst(self, link: str) -> None:
        self.stage.settle()
        wanted = _on_links((link,))
        while (message := self.stage.wire.take(wanted)) is not None:
            self._print(str(message))
            self.stage.hand_over(message)
        self.stage.settle()

    def do_lose(self, *links: str) -> None:
        self.stage.settle()
        self._lose(_on_links(links))

    def _lose(self, wanted: Callable[[Message], bool]) -> None:
        self._print(*[f"lost: {message}" for message in self.stage.wire.lose(wanted)])
        self.stage.settle()

    def do_cut(self, node: str) -> None:
        self.stage.settle()
        self.stage.wire.is_cut[int(node)] = True
        self._lose(lambda message: int(node) in (message.source, message.target))

    def do_heal(self, node: str) -> None:
        self.stage.wire.is_cut[int(node)] = False

    def do_reset(self, one: str, other: str) -> None:
        self.stage.settle()
        self._lose(lambda message: {message.source, message.target} == {int(one), int(other)})
        for here, there in ((one, other), (other, one)):
            consensus = self.stage.actors[int(here)].consensus
            if consensus is not None:
                self.stage.call(lambda consensus=consensus, there=there: consensus.on_link_reset(int(there)))
        self.stage.settle()

    def do_wire(self) -> None:
        self.stage.settle()
        self._print(*[f"in flight: {message}" for message in self.stage.wire.in_flight])

    def do_clean(self, node: str, index: str) -> None:
        segments = self.stage.replica(int(node)).log._segments
        for segment in segments:
            segment.cleaned_to = Index(int(index))

    def do_bounds(self, node: str) -> None:
        self.stage.ask_for_clean_indexes(int(node))

    def do_beat(self, node: str) -> None:
        self.stage.beat(int(node))
        self.stage.settle()

    def do_say(self, link: str, kind: str, *flags: str, term: str, **options: str) -> None:
        source, target = map(int, link.split("->"))
        commit, visible = int(options.get("commit", 0)), int(options.get("visible", options.get("commit", 0)))
        if kind in ("vote", "pre-vote"):
            index, last_term = _position(options["end"])
            self.stage.say(source, target, VoteRequest(GROUP, int(term), index, last_term, kind == "pre-vote"))
        elif kind == "beat":
            at, at_term = _position(options.get("at", "-1@0"))
            beat = Heartbeat(GROUP, int(term), commit, visible, at, at_term)
            self.stage.say(source, target, HeartbeatRequest([beat]))
        elif kind == "snapshot":
            offset, (applied, applied_term) = Offset(int(options["offset"])), _position(options["applied"])
            start = LogStart(Index(int(options["start"])), offset, offset, Term(int(options["after"])))
            compacted = int(options.get("compacted", "0"))
            checksum = (
                0 if not compacted else asyncio.run(snapshot_checksum(Snapshot(start, applied, applied_term, b"")))
            )
            request = InstallSnapshotRequest(
                *(GROUP, int(term), start, applied, applied_term, 0, 0, checksum), compacted_index=compacted
            )
            self.stage.say(source, target, request)
        else:
            after, after_term = _position(options["after"])
            terms = [each for each in options.get("entries", "").split(",") if each]
            entries = entries_after(self.stage.replica(target).log, after, *_terms_and_counts(terms))
            payload = b"".join(pack_header(entry, entry.index) + bytes(entry.payload) for entry in entries)
            request = AppendEntriesRequest(GROUP, int(term), after, after_term, commit, visible, "flush" in flags)
            self.stage.say(source, target, request, payload)

    # -- disks --------------------------------------------------------------------------------------------------

    def do_hold(self, node: str, pool: str) -> None:
        self.stage.settle()
        self.stage.actors[int(node)].workers.hold(Pool(pool))

    def do_release(self, node: str, pool: str) -> None:
        self.stage.settle()
        self.stage.call(lambda: self.stage.actors[int(node)].workers.release(Pool(pool)))
        self.stage.settle()

    def do_fail(self, node: str, operation: str, number: str = "EIO") -> None:
        self.stage.disk.fail_next(operation, error=getattr(errno, number), path_part=f"/n{node}/")

    # -- what is there ------------------------------------------------------------------------------------------

    def do_status(self, *nodes: str) -> None:
        self.stage.settle()
        for node in nodes or self.stage.actors:
            self._print(*self.stage.actors[int(node)].status().splitlines())

    def do_probe(self, node: str, *names: str) -> None:
        self.stage.settle()
        probe = self.stage.actors[int(node)].probe
        self._print(", ".join(f"{name} {getattr(probe, name)}" for name in names))


def _on_links(links: tuple[str, ...]) -> Callable[[Message], bool]:
    wanted = set()
    for link in links:
        one, other = map(int, link.replace("<->", "->").split("->"))
        wanted.add((one, other))
        if "<->" in link:
            wanted.add((other, one))
    return lambda message: not wanted or (message.source, message.target) in wanted


def _replicas(nodes: Iterable[str]) -> tuple[Replica, ...]:
    return tuple(replica(int(node)) for node in nodes)


def _terms_and_counts(words: Iterable[str]) -> tuple[list[int], list[int]]:
    """Return what `3` and `3x5` say: the terms, and how many entries each stands for."""
    parts = [word.partition("x") for word in words]
    return [int(term) for term, _, _ in parts], [int(count or 1) for _, _, count in parts]


def _position(text: str) -> tuple[int, int]:
    index, _, term = text.partition("@")
    return int(index), int(term)
