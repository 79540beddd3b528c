"""What the admin ports of brokers tell of a cluster, for `raftka doctor`: readiness, addresses, bounds, health.

A broker that has just started answers some of these requests, and one of an older version does not know all of them.
Both are looked at as far as they answer.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from raftka.admin_client import AdminError, get_json, read_date
from raftka.config import parse_address
from raftka.health.findings import Finding, Level, from_json
from raftka.health.picture import BoundFill, BrokerPicture, MemberPicture, MovePicture, TransactionPicture
from raftka.health.reasons import explain

HEALTH = "/v1/health"
_READY = "/v1/status/ready"
_UNKNOWN = -1
# What reading an answer of another form raises.
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True, slots=True)
class KnownBroker:
    """Where a broker is, as another one or the file of a dev cluster says; an address that is not known is empty.

    `member` is what raft0's table has of it, as the other one knows it.
    """

    node_id: int
    kafka: str = ""
    admin: str = ""
    refused: str = ""
    refused_cure: str = ""
    refused_age: float | None = None
    member: MemberPicture | None = None


def read_readiness(admin: str, broker: BrokerPicture, seconds: float = 2.0) -> BrokerPicture:
    """Return the broker with what its admin port says of its readiness, or why that does not answer.

    It has so many seconds to take a connection, and to answer. If the node id is negative, it is not known: the answer
    names it, unless the broker is of an older version.
    """
    try:
        status, body = get_json(admin, _READY, seconds)
    except AdminError as error:
        return replace(broker, runs=False, admin_error=str(error))
    if not isinstance(body, dict) or status not in (HTTPStatus.OK, HTTPStatus.SERVICE_UNAVAILABLE):
        return replace(broker, runs=False, admin_error=f"admin port {admin}: {_READY} answers with status {status}")
    node = body.get("node_id")
    if isinstance(node, int) and node != broker.node_id:
        if broker.node_id >= 0:
            return replace(broker, runs=False, admin_error=f"admin port {admin} is the one of broker {node}")
        broker = replace(broker, node_id=node)
    if status == HTTPStatus.OK:
        return replace(broker, runs=True, is_ready=True)
    reason, cure = body.get("reason", body.get("error")), body.get("cure")
    return replace(
        broker,
        runs=True,
        is_ready=False,
        not_ready=_line(reason) or f"HTTP status {status}",
        cure=_line(cure),
    )


def read_details(admin: str, broker: BrokerPicture) -> tuple[BrokerPicture, list[tuple[str, int]]]:
    """Return the broker with its bounds, clock, disk, version, events and transactions, and what it says is stalled.

    What it does not answer stays unknown.
    """
    broker = replace(broker, fills=read_fills(admin), clock_offset=_clock_offset(admin))
    try:
        own = (_answer(admin, HEALTH) or {}).get("broker") or {}
        spare, span = own.get("disk_spare_bytes"), own.get("events_span")
        stalled = [(str(topic), int(number)) for topic, number in own.get("stalled", ())]
        told = replace(
            broker,
            version=str(own.get("version") or ""),
            disk_spare_bytes=None if spare is None else int(spare),
            events_lost=int(own.get("events_lost") or 0),
            events_span=None if span is None else float(span),
            features=_levels(own.get("features")),
            levels=_levels(own.get("levels")),
            unleft=tuple((str(name), str(why)) for name, why in own.get("unleft") or ()),
            # A broker of an older version does not tell them.
            transactions=tuple(_transaction(row) for row in own.get("transactions") or ()),
            uncompacted=tuple(map(str, own.get("uncompacted") or ())),
            held_deletes=tuple(
                (int(node), int(partitions), float(seconds))
                for node, partitions, seconds in own.get("held_deletes") or ()
            ),
        )
    except _MALFORMED:
        return broker, []
    return told, stalled


def _transaction(row: Any) -> TransactionPicture:
    return TransactionPicture(
        *(str(row["topic"]), int(row["partition"]), int(row["producer_id"]), int(row["epoch"])),
        *(int(row["first_offset"]), float(row["open_seconds"]), float(row["max_seconds"])),
    )


def _levels(found: Any) -> dict[str, int] | None:
    return None if found is None else {str(name): int(level) for name, level in found.items()}


@dataclass(frozen=True, slots=True)
class ToldMoves:
    """The partitions that are being moved, and those that cannot be.

    `retired` has, by (topic, number), the nodes whose voting data directories never count again.
    """

    moves: tuple[MovePicture, ...]
    retired: Mapping[tuple[str, int], tuple[int, ...]]


def read_moves(admin: str) -> ToldMoves | None:
    """Return what a broker gathers of moves; None if it does not answer."""
    try:
        told = _answer(admin, "/v1/moves") or {}
        # A broker of an older version does not tell what cannot be moved.
        stuck = told.get("cannot_move", ())
        retired = {(str(row["topic"]), int(row["partition"])): tuple(map(int, row["retired"])) for row in stuck}
        return ToldMoves(tuple(_move(row) for row in told["moves"]), retired)
    except _MALFORMED:
        return None


def _move(row: Any) -> MovePicture:
    idle = row["idle_seconds"]
    return MovePicture(
        *(str(row["topic"]), int(row["partition"]), tuple(map(int, row["target"])), bool(row["is_cancelled"])),
        *(_line(row["state"]), _line(row["waits_for"]), None if idle is None else float(idle)),
        tuple(tuple(map(int, voters)) for voters in row["lost_voter_sets"]),
        tuple(map(int, row["away"])),
        # A broker of an older version does not tell it.
        tuple(map(int, row.get("retired", ()))),
        tuple(map(int, row.get("origin", ()))),
    )


def read_fills(admin: str) -> tuple[BoundFill, ...]:
    """Return what has a bound in a broker; nothing if it is of an older version, or does not answer."""
    try:
        return tuple(_fill(each) for each in _answer(admin, "/v1/bounds") or () if each["maximum"] > 0)
    except _MALFORMED:
        return ()


def _fill(row: Any) -> BoundFill:
    used, maximum, refused = int(row["used"]), int(row["maximum"]), int(row["refused"])
    # An older broker's rows do not say whether its peers repeat what was refused.
    is_retried = bool(row.get("is_retried", False))
    return BoundFill(str(row["name"]), str(row["unit"]), used, maximum, refused, str(row["cure"]), is_retried)


def read_known_brokers(admin: str) -> list[KnownBroker]:
    """Return the brokers that a broker knows of; nothing if it does not answer, or serves nobody yet."""
    try:
        return [_known(each) for each in _answer(admin, "/v1/brokers") or ()]
    except _MALFORMED:
        return []


def _known(row: Any) -> KnownBroker:
    kafka = str(row["kafka"])
    # An older broker tells neither a cure nor an age.
    age = row.get("refused_seconds")
    return KnownBroker(
        *(int(row["node_id"]), kafka, _reachable(str(row["admin"]), kafka)),
        *(_line(row.get("refused")), _line(row.get("refused_cure")), None if age is None else float(age)),
        member=_member(row),
    )


def _member(row: Any) -> MemberPicture | None:
    """Return what a row tells of the broker in raft0's table; None: it is of an older version."""
    if "state" not in row:
        return None
    return MemberPicture(
        *(str(row["state"]), float(row["state_seconds"]), float(row["idle_seconds"])),
        *(bool(row["directory_retired"]), str(row["raft0"]), int(row["replicas"])),
    )


def merge_known(groups: Iterable[Sequence[KnownBroker]]) -> dict[int, KnownBroker]:
    """Return what several brokers know, by node id; of each address and refusal the first that is known counts."""
    merged: dict[int, KnownBroker] = {}
    for each in (known for group in groups for known in group):
        before = merged.get(each.node_id, KnownBroker(each.node_id))
        refusal = before if before.refused else each
        merged[each.node_id] = KnownBroker(
            *(each.node_id, before.kafka or each.kafka, before.admin or each.admin),
            *(refusal.refused, refusal.refused_cure, refusal.refused_age),
            member=before.member or each.member,
        )
    return merged


def ask_one(admin: str) -> list[Finding]:
    """Return the findings of one broker at `/v1/health`; of one that does not serve yet, what it waits for."""
    trouble = ""
    try:
        status, body = get_json(admin, HEALTH)
        if status == HTTPStatus.OK:
            return [from_json(each) for each in body["findings"]]
        trouble = f"{HEALTH} answers with status {status}"
    except AdminError as error:
        trouble = str(error)
    except _MALFORMED:
        trouble = f"{HEALTH} answers what this version of raftka cannot read"
    ready = read_readiness(admin, BrokerPicture(_UNKNOWN))
    name = "broker" if ready.node_id == _UNKNOWN else f"broker {ready.node_id}"
    if ready.not_ready:
        explained = explain(ready.not_ready, None if ready.node_id == _UNKNOWN else ready.node_id)
        words = f"runs, but serves no clients: {ready.not_ready}"
        return [Finding(Level.PROBLEM, name, words, ready.cure or explained.cure, explained.cause)]
    if ready.is_ready:
        cure = "ask it by its Kafka port instead: raftka doctor --brokers HOST:PORT"
        return [Finding(Level.WARNING, name, f"ready, but {trouble}", cure, "it is of another version of Raftka")]
    return [
        Finding(
            Level.PROBLEM,
            name,
            ready.admin_error,
            "start the broker and read its log, or name the admin port of a broker, 9644 by default: --admin HOST:PORT",
            "no broker has its admin port there, or the network to it is cut",
        )
    ]


def _clock_offset(admin: str) -> float | None:
    try:
        seen, here = read_date(admin)
        return here - parsedate_to_datetime(seen).timestamp()
    except (AdminError, ValueError):
        return None


def _answer(admin: str, path: str) -> Any:
    try:
        status, body = get_json(admin, path)
    except AdminError:
        return None
    return body if status == HTTPStatus.OK else None


def _reachable(admin: str, kafka: str) -> str:
    """Return an admin address as others reach it: behind a wildcard, it is where Kafka clients come in, too."""
    try:
        host, port = parse_address(admin)
        if ipaddress.ip_address(host).is_unspecified:
            return f"{kafka.rpartition(':')[0]}:{port}"
    except ValueError:
        # A name is no address, and so no wildcard.
        pass
    return admin


def _line(text: object) -> str:
    return " ".join(str(text).split()) if text else ""
