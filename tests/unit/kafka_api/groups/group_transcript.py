"""Transcripts of the group state machine: a script and what it prints, compared word by word.

    # Why this block is here.
    join a                            <- commands, one per line
    ---
    a MEMBER_ID_REQUIRED as a1        <- what they print, up to the next blank line

`REWRITE_TRANSCRIPTS=1 pytest tests/unit/kafka_api/groups` writes what is printed now into the files; read the
difference before you keep it. Requests are named by a word; a member that gets its id by request `a` is called `a`.

    group [delay=SECONDS] [size=N]           an empty group
    restore GENERATION [MEMBER=ASSIGNMENT..]  a group as it was stored, the first one leads; MEMBER/INSTANCE is static
    join NAME [id=ID] [instance=I] [protocols=range:metadata,...] [type=T] [session=S] [rebalance=S] [knows|skips]
    sync NAME ID generation [MEMBER=ASSIGNMENT..] [instance=I] [type=T] [protocol=P]
    heartbeat ID GENERATION [instance=I]
    commit ID GENERATION [instance=I]       `-` stands for no id, -1 for no generation
    leave ID [instance=I]
    kill                                    it is deleted, or kept elsewhere from now on
    revive                                  the deletion has failed
    stored NUMBER [ERROR]                   the write has ended
    after SECONDS                           time passes, and the group wakes when it asked to
    status

Whatever a command does to the group's state is noted as a transition, see `group_transitions`.
"""

from collections.abc import Callable

from cluster.groups.records import StoredGroup, StoredMember
from kafka_api.groups.group import Group
from kafka_api.groups.group_events import Identity, Join, JoinResult, Reply, Store, Sync, Wake
from kafka_api.protocol.error_codes import ErrorCode
from tests.unit.kafka_api.groups import group_transitions
from tests.unit.kafka_api.groups.group_transitions import NO_GROUP, Transition

_INFINITY = float("inf")
# To an answer with one of these the group has taken notice of the join.
_TAKEN = (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)

# How often a group may look at one time, each time because of the look before: a join may end, and the time to sync.
_LOOKS_MAX = 5
# Asked and answered at once, they change the group even where its state stays.
_NOTED = ("leave", "leave before the join")


def replay(text: str) -> tuple[str, set[Transition]]:
    """Return the transcript with what its commands print now, and the transitions that it tells."""
    teller, blocks = Teller(), []
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        script = lines[: lines.index("---")] if "---" in lines else lines
        commands = [line for line in script if line and not line.startswith("#")]
        printed = teller.tell(commands)
        blocks.append("\n".join([*script, "---", *printed] if commands else script))
    return "\n\n".join(blocks) + "\n", teller.transitions


class Teller:
    """A group that is told what happens, one command after the other.

    Attributes:
        transitions: What the commands have done to the group's state.
    """

    def __init__(self) -> None:
        self.transitions: set[Transition] = set()
        self._now = 0.0
        self._wake = _INFINITY
        self._names: dict[int, str] = {}
        self._printed: list[str] = []
        self._group = Group(0.0, 1000)
        # Of the command that is obeyed: what it was answered with.
        self._answers: dict[int, ErrorCode] = {}
        self._commands: dict[str, Callable[..., None]] = {
            name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")
        }

    @property
    def group(self) -> Group:
        """The group as it is now."""
        return self._group

    def tell(self, commands: list[str]) -> list[str]:
        for command in commands:
            name, *words = command.split()
            plain = [word for word in words if "=" not in word]
            options = dict(word.split("=", 1) for word in words if "=" in word)
            self._commands[name](*plain, **options)
        printed, self._printed = self._printed, []
        return printed

    def _say(self, text: str) -> None:
        self._printed.append(text)

    def _happen(self, event: str, step: Callable[[], object], is_taken: Callable[[], bool] = lambda: True) -> None:
        """Let something happen to the group, and note the transition, if it is one."""
        before = self._group.state
        step()
        self._take_effects()
        if before is not self._group.state or is_taken():
            self.transitions.add(Transition(before.value, event, self._group.state.value))

    def _ask(self, event: str, said: str, step: Callable[[], ErrorCode]) -> None:
        """Let something happen that is answered at once."""
        answers: list[ErrorCode] = []

        def ask() -> None:
            answers.append(step())
            self._say(f"{said}: {answers[0].name}")

        self._happen(event, ask, lambda: event in _NOTED and not answers[0])

    def _take_effects(self) -> None:
        self._answers.clear()
        for effect in self._group.take_effects():
            match effect:
                case Wake(at):
                    assert at >= self._now, "a wake in the past"
                    self._wake = min(self._wake, at)
                case Store(number, group):
                    self._say(f"store {number}: {_stored(group)}")
                case Reply(ticket, JoinResult() as result):
                    self._answers[ticket] = result.error
                    self._say(f"{self._names.pop(ticket)} {_joined(result)}")
                case Reply(ticket, result):
                    told = f"gets '{result.assignment.decode()}'" if result.error == 0 else result.error.name
                    self._say(f"{self._names.pop(ticket)} {told}")

    def _ticket(self, name: str) -> int:
        ticket = max(self._names, default=0) + 1
        self._names[ticket] = name
        return ticket

    # -- commands -----------------------------------------------------------------------------------------------

    def do_group(self, *, delay: str = "0", size: str = "1000") -> None:
        self._group = Group(float(delay), int(size))

    def do_restore(self, generation: str, **members: str) -> None:
        stored = []
        for name, assignment in members.items():
            member_id, _, instance = name.partition("/")
            stored.append(
                StoredMember(
                    member_id, instance or None, "c", "/h", 60_000, 10_000, b"of " + member_id.encode(),
                    assignment.encode(),
                )
            )  # fmt: skip
        protocol, leader = ("range", stored[0].member_id) if stored else (None, None)
        group = StoredGroup("consumer", int(generation), protocol, leader, 0, tuple(stored))
        self._group = Group.restored(group, self._now, 0.0, 1000)
        self._take_effects()
        self.transitions.add(Transition(NO_GROUP, "restore", self._group.state.value))

    def do_join(self, name: str, *flags: str, **options: str) -> None:
        protocols = options.get("protocols", f"range:of {name}".replace(" ", "-"))
        request = Join(
            member_id=options.get("id", ""),
            new_member_id=name,
            instance_id=options.get("instance"),
            client_id="c",
            client_host="/h",
            session_timeout_ms=int(1000 * float(options.get("session", "10"))),
            rebalance_timeout_ms=int(1000 * float(options.get("rebalance", "60"))),
            protocol_type=options.get("type", "consumer"),
            protocols=tuple(
                (each.partition(":")[0], each.partition(":")[2].encode()) for each in protocols.split(",") if each
            ),
            must_know_id="knows" in flags,
            can_skip_assignment="skips" in flags,
        )
        ticket = self._ticket(name)
        self._happen(
            group_transitions.join_event(self._group, request),
            lambda: self._group.join(self._now, request, ticket),
            lambda: self._answers.get(ticket, ErrorCode.NONE) in _TAKEN,
        )

    def do_sync(self, name: str, member_id: str, generation: str, **options: str) -> None:
        known = {key: options.pop(key, None) for key in ("instance", "type", "protocol")}
        assignments = {member: text.encode() for member, text in options.items()}
        asked = Sync(member_id, int(generation), known["instance"], known["type"], known["protocol"], assignments)
        ticket = self._ticket(name)
        self._happen("sync", lambda: self._group.sync(self._now, asked, ticket), lambda: False)

    def do_heartbeat(self, member_id: str, generation: str, *, instance: str | None = None) -> None:
        identity = Identity(member_id, instance, int(generation))
        said = f"heartbeat of {member_id} in {generation}"
        self._ask("heartbeat", said, lambda: self._group.heartbeat(self._now, identity))

    def do_commit(self, member_id: str, generation: str, *, instance: str | None = None) -> None:
        identity = Identity(member_id.strip("-"), instance, int(generation))
        said = f"commit of {member_id} in {generation}"
        self._ask("commit", said, lambda: self._group.check_commit(self._now, identity))

    def do_leave(self, member_id: str, *, instance: str | None = None) -> None:
        identity = Identity(member_id.strip("-"), instance)
        event = "leave before the join" if member_id in self._group.pending else "leave"
        self._ask(event, f"leave of {member_id}", lambda: self._group.leave(self._now, identity))

    def do_kill(self) -> None:
        self._happen("kill", lambda: self._group.kill(ErrorCode.NOT_COORDINATOR))

    def do_revive(self) -> None:
        self._happen("revive", self._group.revive)

    def do_stored(self, number: str, error: str = "NONE") -> None:
        code = ErrorCode[error]
        self._happen("not stored" if code else "stored", lambda: self._group.stored(self._now, int(number), code))

    def do_after(self, seconds: str) -> None:
        until = self._now + float(seconds)
        looks = 0
        while self._wake <= until:
            looks = 0 if self._wake > self._now else looks + 1
            assert looks < _LOOKS_MAX, "a wake in the past is asked for again and again"
            self._now, self._wake = max(self._now, self._wake), _INFINITY
            before = len(self._printed)
            event = group_transitions.due_event(self._group, self._now)
            self._happen(event, lambda: self._group.on_time(self._now), lambda event=event: event != "")
            self._printed[before:] = [f"{self._now:g} s: {line}" for line in self._printed[before:]]
        self._now = until

    def do_status(self) -> None:
        group = self._group
        members = " ".join(
            each.member_id + (f"/{each.instance_id}" if each.instance_id else "") + f"='{each.assignment.decode()}'"
            for each in group.members
        )
        pending = f" pending {' '.join(group.pending)}" if group.pending else ""
        self._say(
            f"{group.state.value} generation {group.generation} {group.protocol} leader {group.members.leader}:"
            f" {members or 'nobody'}{pending}"
        )


def _joined(result: JoinResult) -> str:
    if result.error is not ErrorCode.NONE:
        return f"{result.error.name} as {result.member_id}"
    members = ", ".join(
        f"{each.member_id} {each.metadata.decode()}" + (f" ({each.instance_id})" if each.instance_id else "")
        for each in result.members
    )
    skips = " and shall not assign" if result.skip_assignment else ""
    told = f", is told of {members}" if members else ""
    head = f"joined generation {result.generation} as {result.member_id}"
    return f"{head}, {result.protocol}, leader {result.leader}{told}{skips}"


def _stored(group: StoredGroup) -> str:
    members = ", ".join(f"{each.member_id}='{each.assignment.decode()}'" for each in group.members)
    return f"generation {group.generation} {group.protocol} leader {group.leader}: {members or 'nobody'}"
