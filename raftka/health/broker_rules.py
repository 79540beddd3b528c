"""Rules that look at one broker after the other. What they look at is called `broker N`."""

from collections.abc import Iterator

from raftka.counted import counted
from raftka.health.findings import Finding, Level, ok
from raftka.health.picture import BoundFill, BrokerPicture, Picture
from raftka.health.reasons import explain

# The doctor reads a broker's clock from an HTTP header, which has whole seconds.
SKEW_SECONDS = 2.5
# Of a bound: what is fuller is worth a word.
FULL_SHARE = 0.9
# A broker keeps its newest 2,000 events. In a calm cluster they reach back for days.
EVENTS_SPAN_SECONDS = 3600.0
_HANGS = "takes connections and answers nothing: it hangs or is stopped"
_RESERVE = "disk.reserve.bytes"


def check_hanging(picture: Picture) -> Iterator[Finding]:
    """Name brokers whose connections only the kernel takes, and addresses of which that is all that is known."""
    found = [
        (broker.node_id, f"its Kafka port {broker.kafka} {_HANGS}")
        for broker in picture.brokers
        if broker.hangs and not broker.runs
    ]
    for node, words in found:
        yield _hanging(f"broker {node}", words, f"raftka dev restart {node}")
    for address in picture.hanging:
        yield _hanging("brokers", f"{address} {_HANGS}", "raftka dev restart N")


def _hanging(what: str, words: str, command: str) -> Finding:
    return Finding(
        Level.PROBLEM,
        what,
        words,
        "look at its machine; `kill -USR2 PID` writes its stacks to its log, unless the process is stopped:"
        f" `kill -CONT PID` wakes it; else restart it (`{command}`, or its service)",
        "its kernel takes connections, and its process neither reads nor answers them",
    )


def check_ready(picture: Picture) -> Iterator[Finding]:
    """Name brokers that run and do not serve, with their own reason."""
    for broker in picture.brokers:
        where = f" at {broker.kafka}" if broker.kafka else ""
        if broker.not_ready:
            explained = explain(broker.not_ready, broker.node_id)
            words = f"runs, but serves no clients{where}" if broker.answers is False else "not ready"
            yield Finding(
                Level.PROBLEM,
                _name(broker),
                f"{words}: {broker.not_ready}",
                broker.cure or explained.cure,
                explained.cause,
            )
        elif broker.answers is False and broker.runs:
            yield Finding(
                Level.PROBLEM,
                _name(broker),
                f"runs, but does not answer{where}",
                "check kafka.address, kafka.advertised.address, and the network to that address",
                "its admin port answers, and its Kafka port does not",
            )
        elif broker.answers and broker.admin_error:
            yield Finding(
                Level.PROBLEM,
                _name(broker),
                f"not ready: {broker.admin_error}",
                "let this machine reach admin.address and admin.port of that broker; if it may, read the broker's log",
                "its Kafka port answers, and its admin port does not",
            )


def check_refused(picture: Picture) -> Iterator[Finding]:
    """Name brokers whose links others refuse."""
    for broker in picture.brokers:
        if broker.refused:
            words = "does not answer; links with it were refused" if broker.is_lost else "links with it are refused"
            age = "" if broker.refused_age is None else f" ({_ago(broker.refused_age)})"
            yield Finding(
                Level.PROBLEM,
                _name(broker),
                f"{words}{age}: {broker.refused}",
                broker.refused_cure
                or "give it the cluster.secret.file, the seeds and the data directory that it has in this cluster, then"
                " restart it",
                "it does not prove that it is the broker that the others know by this node id",
            )


def check_bounds(picture: Picture) -> Iterator[Finding]:
    """Name bounds that are nearly reached, or have refused requests."""
    for broker in picture.brokers:
        for fill in broker.fills:
            if fill.share >= FULL_SHARE or fill.refused:
                yield _bound(broker, fill)


def _bound(broker: BrokerPicture, fill: BoundFill) -> Finding:
    refused = f", and has refused {counted(fill.refused, 'request')} since its start" if fill.refused else ""
    if fill.share >= 1:
        cause = "the bound is reached"
    else:
        cause = "the bound was reached since its start" if fill.refused else "the bound is nearly reached"
    return Finding(
        Level.PROBLEM if fill.share >= 1 or (fill.refused and not fill.is_retried) else Level.WARNING,
        _name(broker),
        f"{fill.name} has {fill.used} of {fill.maximum} {fill.unit}{refused}",
        fill.cure,
        cause,
    )


def check_disks(picture: Picture) -> Iterator[Finding]:
    """Name disks below the reserve, and those that near it."""
    cure = (
        "make room on that disk, or keep less: retention.ms, retention.bytes, or `raftka topic delete`; or let other"
        " brokers hold more: raftka partition move"
    )
    for broker in picture.brokers:
        spare = broker.disk_spare_bytes
        if broker.is_disk_short or (spare is not None and spare < 0):
            below = f" by {-spare / 1e6:,.0f} MB" if spare is not None and spare < 0 else ""
            yield Finding(
                Level.PROBLEM,
                _name(broker),
                f"its disk is below {_RESERVE}{below}: producers are refused where a majority's disks are",
                cure,
                "its disk is nearly full",
            )
        elif spare is not None and (reserve := _reserve(broker)) is not None and spare < reserve:
            yield Finding(
                Level.WARNING,
                _name(broker),
                f"its disk has {spare / 1e6:,.0f} MB above {_RESERVE}: below it, producers are refused",
                cure,
                "its disk is nearly full",
            )


def _reserve(broker: BrokerPicture) -> int | None:
    value = (broker.configs or {}).get(_RESERVE)
    return int(value) if value is not None and value.isascii() and value.isdigit() else None


def check_clocks(picture: Picture) -> Iterator[Finding]:
    """Name clocks that differ from the clock here; say of a broker that is ready that it is."""
    for broker in picture.brokers:
        skew = broker.clock_offset
        if skew is not None and abs(skew) > SKEW_SECONDS:
            yield Finding(
                Level.WARNING,
                _name(broker),
                f"its clock and this machine's are {abs(skew):.0f} s apart",
                "run chrony or systemd-timesyncd on both",
                "one of the clocks, or both, follow no time server",
            )
        elif broker.is_ready and broker.answers is not False:
            agrees = "" if skew is None else "; its clock agrees with the clock of this machine"
            yield ok(_name(broker), f"ready{agrees}")


def check_events(picture: Picture) -> Iterator[Finding]:
    """Name brokers whose events come so fast that they do not reach back an hour."""
    for broker in picture.brokers:
        span = broker.events_span
        if broker.events_lost and span is not None and span < EVENTS_SPAN_SECONDS:
            yield Finding(
                Level.WARNING,
                _name(broker),
                f"it has dropped {counted(broker.events_lost, 'event')}; those that it keeps are of the last"
                f" {span / 60:.0f} min",
                "read the events (`GET /v1/events`) or its log, and see which node or which leader changes so often",
                "links or leaders change often",
            )


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"


def _name(broker: BrokerPicture) -> str:
    return f"broker {broker.node_id}"
