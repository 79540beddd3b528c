"""The lines of a history, as docs/history-format.md describes them: one JSON object each, told apart by `f`.

`type` says what became of an operation: `ok` happened, `fail` certainly did not, `info` is unknown for ever. Times are
nanoseconds of any one clock. An operation without `ret` has no end.
"""

from typing import Annotated, Any, Literal

import msgspec

Outcome = Literal["ok", "fail", "info"]
# What numpy's columns hold; larger numbers are refused with their line.
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Process = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
# -1 is Kafka's word for none.
FetchEpoch = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]


class Operation(msgspec.Struct, tag_field="f"):
    """What all lines have."""


class Send(Operation, tag="send"):
    """One record that a producer sent; `val` is unique within its partition.

    `txn` names the transaction that it belongs to. `of` is the partition and the offset of the input that it was made
    of, by the consumer group `group`. `key` is the record's key. `tombstone` says that the record has no value, so it
    deletes its key; `val` is then a name that the client gave it.
    """

    type: Outcome
    proc: Process
    inv: Number
    tp: str
    acks: Literal["all", "1", "0"]
    val: str
    ret: Number | None = None
    idem: bool = False
    off: Offset | None = None
    epoch: Number | None = None
    err: str | None = None
    txn: str | None = None
    of: tuple[str, Offset] | None = None
    group: str = ""
    key: str | None = None
    tombstone: bool = False


class Poll(Operation, tag="poll"):
    """What one poll of one partition returned, in order; `hw` is the high watermark that came with it.

    `epoch` is the leader epoch that the fetch named, so that only the leader of that epoch may answer it; -1: none was
    named. None: not written down, and the client is taken to go back to no older leader.

    `iso` is the isolation level of the consumer, and `lso` the last stable offset that came with the answer. `txn`
    names the transaction that the poll was made for.
    """

    type: Literal["ok", "info"]
    proc: Process
    inv: Number
    tp: str
    recs: list[tuple[Offset, str]] = []
    ret: Number | None = None
    hw: Offset | None = None
    final: bool = False
    epoch: FetchEpoch | None = None
    iso: Literal["read_committed", "read_uncommitted"] | None = None
    lso: Offset | None = None
    txn: str | None = None


class Latest(Operation, tag="latest"):
    """ListOffsets latest: `off` is the offset of the next record to come."""

    type: Outcome
    proc: Process
    inv: Number
    tp: str
    ret: Number | None = None
    off: Offset | None = None
    err: str | None = None


class Assign(Operation, tag="assign"):
    """From `inv` on the process reads these partitions; one that it read before keeps its position."""

    proc: Process
    inv: Number
    tps: list[str]
    type: Outcome = "ok"
    ret: Number | None = None


class Subscribe(Operation, tag="subscribe"):
    """As `Assign`, but in a group: the coordinator gave the process these partitions, and may take them again."""

    proc: Process
    inv: Number
    tps: list[str]
    type: Outcome = "ok"
    ret: Number | None = None


class Seek(Operation, tag="seek"):
    """From `inv` on the process reads a partition from somewhere else."""

    proc: Process
    inv: Number
    tp: str
    off: Offset | None = None
    type: Outcome = "ok"
    ret: Number | None = None


class Trim(Operation, tag="trim"):
    """Records below `off` were deleted on purpose (DeleteRecords, retention): they are not missed."""

    tp: str
    off: Offset
    inv: Number = 0
    proc: Process = 0
    type: Outcome = "ok"
    ret: Number | None = None


class Compact(Operation, tag="compact"):
    """The log of a partition may be compacted: of each key at least the record with the largest offset stays.

    `delete_retention_ms` is for how long a tombstone stays at least: `delete.retention.ms` of the topic, in
    milliseconds.
    """

    tp: str
    inv: Number = 0
    proc: Process = 0
    delete_retention_ms: Annotated[int, msgspec.Meta(ge=0, le=2**63 // 10**6)] = 86_400_000


class Txn(Operation, tag="txn"):
    """In a log: a producer begins, commits or aborts a transaction. In a history of lists: a whole transaction.

    In a log it has `txn` and `do`. `id` and `epoch` are the producer's, `version` is that of the EndTxn request, and
    `attempts` says how often that was sent. `offsets` are the positions that the transaction commits for `group`.

    In a history of lists it has `ops`, and `asked` is when its commit was asked for.
    """

    type: Outcome
    proc: Process
    inv: Number
    ret: Number | None = None
    txn: str | None = None
    do: Literal["begin", "commit", "abort"] | None = None
    id: str | None = None
    epoch: Number | None = None
    version: Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)] | None = None
    attempts: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] = 1
    offsets: dict[str, Offset] = {}
    group: str = ""
    err: str | None = None
    ops: list[list[Any]] | None = None
    asked: Number | None = None
    final: bool = False


class Fault(Operation, tag="fault"):
    """Something was done to the cluster. A name that begins with `power` took what was not fsynced."""

    name: str
    inv: Number


class Read(Operation, tag="read"):
    """A register's value, null if nothing was written yet; one that is ok without `out` says nothing."""

    type: Outcome
    proc: Process
    inv: Number
    key: str
    ret: Number | None = None
    # A value that is null is not one that is left out.
    out: Any = msgspec.UNSET


class Write(Operation, tag="write"):
    """A register becomes `in`."""

    type: Outcome
    proc: Process
    inv: Number
    key: str
    value: Any = msgspec.field(name="in")
    ret: Number | None = None


class Cas(Operation, tag="cas"):
    """A register becomes `in[1]` if it is `in[0]`; `out` says whether it did."""

    type: Outcome
    proc: Process
    inv: Number
    key: str
    value: tuple[Any, Any] = msgspec.field(name="in")
    ret: Number | None = None
    out: bool | None = None


Line = Send | Poll | Latest | Assign | Subscribe | Seek | Trim | Compact | Txn | Fault | Read | Write | Cas
REGISTER_OPERATIONS = (Read, Write, Cas)
LOG_OPERATIONS = (Send, Poll, Latest, Assign, Subscribe, Seek, Trim, Compact, Txn)
