"""Transcripts of the group state machine: a script and what it prints, compared word by word.

    # Why this block is here.
    join a                            <- commands, one per line
    ---
    a MEMBER_ID_REQUIRED as a1        <- what they print, up to the next blank line

`REWRITE_TRANSCRIPTS=1 pytest tests/unit/kafka_api/groups` writes what is printed now into the files; read the
difference before you keep it. Requests are named by a word; a member that gets its id by request `a` is called `a`.

    group [delay=SECONDS] [size=N]           an empty group
    restore GENERATION MEMBER=ASSIGNMENT..  a group as it was stored, the first one leads; MEMBER/INSTANCE is static
    join NAME [id=ID] [instance=I] [protocols=range:metadata,...] [type=T] [session=S] [rebalance=S] [knows|skips]
    sync NAME ID generation [MEMBER=ASSIGNMENT..] [instance=I] [type=T] [protocol=P]
    heartbeat ID GENERATION [instance=I]
    commit ID GENERATION [instance=I]       `-` stands for no id, -1 for no generation
    leave ID [instance=I]
    kill
    stored NUMBER [ERROR]                   the write has ended
    after SECONDS                           time passes, and the group wakes when it asked to
    status
"""

from collections.abc import Callable

from cluster.groups.records import StoredGroup, StoredMember
from kafka_api.groups.group import Group
from kafka_api.groups.group_events import Identity, Join, JoinResult, Reply, Store, Sync, Wake
from kafka_api.protocol.error_codes import ErrorCode

_INFINITY = float("inf")


def replay(text: str) -> str:
    """Return the transcript with what its commands print now."""
    teller, blocks = _Teller(), []
    for paragraph in text.strip("\n").split("\n\n"):
        lines = paragraph.split("\n")
        script = lines[: lines.index("---")] if "---" in lines else lines
        commands = [line for line in script if line and not line.startswith("#")]
        printed = teller.tell(commands)
        blocks.append("\n".join([*script, "---", *printed] if commands else script))
    return "\n\n".join(blocks) + "\n"


class _Teller:
    def __init__(self) -> None:
        self._now = 0.0
        self._wake = _INFINITY
        self._names: dict[int, str] = {}
        self._printed: list[str] = []
        self._group = Group(0.0, 1000)
        self._commands: dict[str, Callable[..., None]] = {
            name.removeprefix("do_"): getattr(self, name) for name in dir(self) if name.startswith("do_")
        }

    def tell(self, commands: list[str]) -> list[str]:
        for command in commands:
            name, *words = command.split()
            plain = [word for word in words if "=" not in word]
            options = dict(word.split("=", 1) for word in words if "=" in word)
            self._commands[name](*plain, **options)
            self._take_effects()
        printed, self._printed = self._printed, []
        return printed

    def _say(self, text: str) -> None:
        self._printed.append(text)

    def _take_effects(self) -> None:
        for effect in self._group.take_effects():
            match effect:
                case Wake(at):
                    assert at > self._now or self._wake == _INFINITY, "a wake in the past is asked for again and again"
                    self._wake = min(self._wake, at)
                case Store(number, group):
                    self._say(f"store {number}: {_stored(group)}")
                case Reply(ticket, JoinResult() as result):
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
        leader = stored[0].member_id
        group = StoredGroup("consumer", int(generation), "range", leader, 0, tuple(stored))
        self._group = Group.restored(group, self._now, 0.0, 1000)

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
        self._group.join(self._now, request, self._ticket(name))

    def do_sync(self, name: str, member_id: str, generation: str, **options: str) -> None:
        known = {key: options.pop(key, None) for key in ("instance", "type", "protocol")}
        assignments = {member: text.encode() for member, text in options.items()}
        asked = Sync(member_id, int(generation), known["instance"], known["type"], known["protocol"], assignments)
        self._group.sync(self._now, asked, self._ticket(name))

    def do_heartbeat(self, member_id: str, generation: str, *, instance: str | None = None) -> None:
        error = self._group.heartbeat(self._now, Identity(member_id, instance, int(generation)))
        self._say(f"heartbeat of {member_id} in {generation}: {error.name}")

    def do_commit(self, member_id: str, generation: str, *, instance: str | None = None) -> None:
        identity = Identity(member_id.strip("-"), instance, int(generation))
        error = self._group.check_commit(self._now, identity)
        self._say(f"commit of {member_id} in {generation}: {error.name}")

    def do_leave(self, member_id: str, *, instance: str | None = None) -> None:
        error = self._group.leave(self._now, Identity(member_id.strip("-"), instance))
        self._say(f"leave of {member_id}: {error.name}")

    def do_kill(self) -> None:
        self._group.kill(ErrorCode.NOT_COORDINATOR)

    def do_stored(self, number: str, error: str = "NONE") -> None:
        self._group.stored(self._now, int(number), ErrorCode[error])

    def do_after(self, seconds: str) -> None:
        until = self._now + float(seconds)
        while self._wake <= until:
            self._now, self._wake = max(self._now, self._wake), _INFINITY
            before = len(self._printed)
            self._group.on_time(self._now)
            self._take_effects()
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
