"""Rows of a log as lines of text."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from raftka.broker.offline.log_rows import Row
from raftka.broker.offline.transaction_rows import marker_text

# Two directories that one node had are told apart by so many digits; JSON has all of them.
_DIRECTORY_SHOWN = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lines_of(row: Row) -> Iterator[str]:
    """Yield the lines of one row."""
    match row["type"]:
        case "log":
            name = row["name"] or "a partition whose topic is not known"
            group = "" if row["group"] in (None, row["name"]) else f", group {row['group']}"
            yield f"log of {name}{group}: {_count(row['segments'], 'segment')} in {row['directory']}"
        case "compacted":
            yield f"entries up to {row['index']} may lack records that log compaction has removed"
        case "snapshot":
            yield (
                f"snapshot: the log starts at entry {row['start_index']}, offset {row['start_offset']};"
                f" applied up to entry {row['applied_index']} of term {row['applied_term']};"
                f" {row['state_bytes']} bytes of state"
            )
            if row["configuration"] is not None:
                yield f"  configuration of the snapshot: {_members(row['configuration'])}"
            for each in row["pending_offsets"] or ():
                count, producer_id = _count(each["offsets"], "offset"), each["producer_id"]
                yield f"  {count} pending in a transaction of producer {producer_id}"
        case "segment":
            index = {"none": "no index file", "ok": "index file ok"}.get(row["index_file"], "index file not usable")
            yield f"segment {row['file']}: {row['bytes']} bytes, {index}"
        case "entry":
            yield _entry(row)
        case "blank":
            verb = "is" if row["bytes"] == 1 else "are"
            begin = f"  {_count(row['bytes'], 'byte')} from byte {row['position']} on"
            yield f"{begin} {verb} made ahead and not written yet"
        case "file":
            yield f"file {row['file']}: {row['what']}"
        case "damage":
            size = row.get("bytes")
            left_out = f" ({_count(size, 'byte')} {'is' if size == 1 else 'are'} left out)" if size else ""
            yield f"DAMAGE {row['file']}, byte {row['position']}: {row['reason']}{left_out}"
        case "end":
            yield from _end(row)


def group_lines(rows: list[Row]) -> Iterator[str]:
    """Yield a table of log directories."""
    yield f"{'PARTITION':<32} {'SEGMENTS':>8} {'BYTES':>14}  DIRECTORY"
    for row in rows:
        notes = [] if row["flaw"] is None else [f"DAMAGE {row['flaw']}"]
        if row["damaged_copies"]:
            notes.append(_count(row["damaged_copies"], "copy", "copies") + " of damaged files")
        note = f"  ({'; '.join(notes)})" if notes else ""
        yield f"{row['name'] or '-':<32} {row['segments']:>8} {row['bytes']:>14}  {row['directory']}{note}"


def _entry(row: Row) -> str:
    offsets = f"offset {row['base_offset']}"
    if row["records"] > 1:
        offsets = f"offsets {row['base_offset']}-{row['base_offset'] + row['records'] - 1}"
    line = (
        f"  entry {row['index']} term {row['term']} {row['kind']}: byte {row['position']}, {row['bytes']} bytes,"
        f" {offsets}, flushed {row['flushed']}, checksum {row['checksum']}"
    )
    if batch := row.get("batch"):
        line += f"; {_count(batch['records'], 'record')}, {batch['codec']}, {_times(batch)}"
        if batch["producer_id"] >= 0:
            line += (
                f", producer {batch['producer_id']} epoch {batch['producer_epoch']} sequence {batch['base_sequence']}"
            )
        if batch["marker"]:
            line += f", {marker_text(batch['marker'])}"
        elif batch["is_transactional"]:
            line += ", part of a transaction"
    if last_index := row.get("last_index"):
        line += f"; stands for entries {row['index']} to {last_index}"
    if start := row.get("start"):
        line += f"; the log starts at entry {start['index']}, offset {start['offset']}"
    if configuration := row.get("configuration"):
        line += f"; {_members(configuration)}"
    if command := row.get("command"):
        line += f"; {command}"
    return line


def _members(configuration: Row) -> str:
    sets = " and ".join(_replicas(voters) for voters in configuration["voter_sets"])
    learners = f", learners {_replicas(configuration['learners'])}" if configuration["learners"] else ""
    generation, index = configuration["revision"]
    return f"voters {sets}{learners}, revision {generation}.{index}"


def _replicas(replicas: list[tuple[int, str]]) -> str:
    """Return node ids with the beginnings of their directory ids."""
    return ",".join(f"{node} ({directory[:_DIRECTORY_SHOWN]})" for node, directory in replicas)


def _times(batch: Row) -> str:
    first, last = batch["base_timestamp"], batch["max_timestamp"]
    if last < 0:
        return "no time"
    # With the broker's time only the larger one holds.
    if first == last or first < 0 or batch["is_log_append_time"]:
        return _time(last)
    return f"{_time(first)} to {_time(last)}"


def _time(milliseconds: int) -> str:
    try:
        return f"{(_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec='milliseconds')[:-6]}Z"
    except OverflowError:
        return f"{milliseconds} ms"


def _end(row: Row) -> Iterator[str]:
    if row["last"] is None:
        yield "no entries"
    else:
        yield f"{_count(row['entries'], 'entry', 'entries')}, the last is {row['last']}; flushed mark {row['flushed']}"
    if not row["damages"]:
        yield "no damage"
        return
    yield _count(row["damages"], "damage")
    first, flushed = row["first_damaged"], row["flushed"]
    if first is None:
        return
    if flushed is None:
        yield "no flushed mark could be read: whether durable bytes are damaged is not known"
    elif first <= flushed:
        yield f"entry {first} is at or below the flushed mark: durable bytes are damaged, and a broker isolates them"
    elif row["unread"]:
        yield (
            f"entry {first} is above the flushed mark of what could be read, and a segment could not be read:"
            " whether durable bytes are damaged is not known"
        )
    else:
        yield f"entry {first} is above the flushed mark: a power loss leaves such a tail, and a start cuts it"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
