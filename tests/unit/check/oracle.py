"""The anomalies once more, straight from their definitions: slow, without numpy, and by no means clever."""

from itertools import combinations, pairwise

NEVER = float("inf")
QUORUM = "all"


def anomalies(lines):
    """Return the names of the anomalies in a history without trims and power losses, judged at quorum_ack."""
    sends = [each for each in lines if each["f"] == "send"]
    polls = [each for each in lines if each["f"] == "poll"]
    latests = [each for each in lines if each["f"] == "latest"]
    by_value = {(each["tp"], each["val"]): each for each in sends}
    records = [(poll, off, poll["tp"], val) for poll in polls for off, val in poll["recs"]]
    found = set()
    found |= values(sends, records, by_value)
    found |= losses(sends, polls, records)
    found |= sessions(lines, sends, polls, records)
    found |= realtime(sends, records, latests)
    return found


def end(operation):
    return NEVER if operation.get("ret") is None else operation["ret"]


def ok(operation):
    return operation["type"] == "ok"


def promises(sends):
    return [each for each in sends if ok(each) and each["off"] is not None and each["acks"] == QUORUM]


def values(sends, records, by_value):
    found = set()
    for poll, _, tp, val in records:
        send = by_value.get((tp, val))
        if send is None:
            found.add("phantom")
        elif send["type"] == "fail":
            found.add("aborted-read")
        if send is not None and end(poll) < send["inv"]:
            found.add("future-read")
    claims = {(tp, off, val) for _, off, tp, val in records} | {(s["tp"], s["off"], s["val"]) for s in promises(sends)}
    for (tp, off, val), (other_tp, other_off, other_val) in combinations(claims, 2):
        if (tp, off) == (other_tp, other_off):
            found.add("inconsistent-offsets")
        if (tp, val) == (other_tp, other_val) and (tp, val) in by_value and by_value[tp, val]["idem"]:
            found.add("duplicate")
    relaxed = [s for s in sends if ok(s) and s["acks"] == "1" and s["off"] is not None and s["epoch"] is not None]
    for one, two in combinations(relaxed, 2):
        if all(one[name] == two[name] for name in ("tp", "off", "epoch")):
            found.add("inconsistent-acks")
    return found


def losses(sends, polls, records):
    found = set()
    for send in sends:
        tp, val = send["tp"], send["val"]
        offsets = [off for poll, off, its_tp, its_val in records if ok(poll) and (its_tp, its_val) == (tp, val)]
        final = [
            poll
            for poll, _, its_tp, its_val in records
            if ok(poll) and poll["final"] and (its_tp, its_val) == (tp, val)
        ]
        if offsets and not final:
            found.add("lost-read")
        if not ok(send) or offsets or send["acks"] == "0":
            continue
        if send["acks"] == "1" and not is_hole(send, sends, records):
            continue
        last = max((off for poll, off, its_tp, _ in records if ok(poll) and its_tp == tp), default=-1)
        found.add("lost-write" if send["off"] is not None and send["off"] <= last else "unseen")
    return found


def is_hole(lost, sends, records):
    if lost["epoch"] is None:
        return False
    for send in sends:
        same = ok(send) and (send["tp"], send["epoch"]) == (lost["tp"], lost["epoch"])
        if same and any(ok(p) and (tp, val) == (send["tp"], send["val"]) for p, _, tp, val in records):
            where = place(send, records)
            if where is not None and lost["off"] is not None and lost["off"] < where:
                return True
            if where is not None and lost["off"] is None:
                return True
    return False


def place(send, records):
    """Where a value was polled first, in the order of the lines; else where it was acknowledged."""
    for _, off, tp, val in records:
        if (tp, val) == (send["tp"], send["val"]):
            return off
    return send["off"] if ok(send) else None


def sessions(lines, sends, polls, records):  # noqa: C901 - as simple as its definitions
    found = set()
    offsets = {(tp, off) for _, off, tp, _ in records} | {(s["tp"], s["off"]) for s in promises(sends)}

    def step(tp, before, after):
        """How many places further: 1 is the next one."""
        if after <= before:
            return after - before
        return sum(1 for its_tp, off in offsets if its_tp == tp and before < off <= after)

    for poll in polls:
        for (one, _), (two, _) in pairwise(poll["recs"]):
            if ok(poll) and step(poll["tp"], one, two) > 1:
                found.add("int-poll-skip")
            if ok(poll) and step(poll["tp"], one, two) < 1:
                found.add("int-nonmonotonic-poll")
    for stream in {(poll["proc"], poll["tp"]) for poll in polls}:
        last = high = None
        for line in lines:
            if line["f"] == "seek" and (line["proc"], line["tp"]) == stream:
                last = None
            if line["f"] != "poll" or (line["proc"], line["tp"]) != stream or not ok(line):
                continue
            if line["hw"] is not None:
                if high is not None and line["hw"] < high:
                    found.add("nonmonotonic-hw")
                high = line["hw"]
            if line["recs"]:
                if last is not None and step(stream[1], last, line["recs"][0][0]) > 1:
                    found.add("poll-skip")
                if last is not None and step(stream[1], last, line["recs"][0][0]) < 1:
                    found.add("nonmonotonic-poll")
                last = line["recs"][-1][0]
    return found


def realtime(sends, records, latests):  # noqa: C901 - as simple as its definitions
    found = set()
    polled = {(tp, val) for _, _, tp, val in records}
    placed = [
        (each, place(each, records))
        for each in sends
        if each["type"] != "fail"
        and place(each, records) is not None
        and ((each["tp"], each["val"]) in polled or (ok(each) and each["acks"] == QUORUM))
    ]
    for one, its_place in placed:
        for two, other_place in placed:
            if one["tp"] != two["tp"] or one is two:
                continue
            if ok(one) and one["acks"] != "0" and end(one) < two["inv"] and other_place < its_place:
                found.add("G0-realtime")
        for poll, off, tp, _ in records:
            if ok(poll) and tp == one["tp"] and end(poll) < one["inv"] and its_place < off:
                found.add("G1c-realtime")
    for proc in {each["proc"] for each in sends}:
        for tp in {each["tp"] for each in sends}:
            mine = [(each, its) for each, its in placed if each["proc"] == proc and each["tp"] == tp]
            for (one, its_place), (_, other_place) in pairwise(mine):
                if other_place <= its_place and ((ok(one) and one["acks"] != "0") or one["idem"]):
                    found.add("nonmonotonic-send")
    for asked in latests:
        for send, its_place in placed:
            if send["tp"] != asked["tp"]:
                continue
            if ok(send) and send["acks"] == QUORUM and end(send) < asked["inv"] and its_place >= asked["off"]:
                found.add("stale-latest")
            if send["inv"] > end(asked) and its_place < asked["off"]:
                found.add("future-latest")
        for other in latests:
            if other["tp"] == asked["tp"] and end(other) < asked["inv"] and other["off"] > asked["off"]:
                found.add("nonmonotonic-latest")
    return found
