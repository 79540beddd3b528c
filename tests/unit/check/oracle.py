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
    found |= overclaims(sends, polls, records, latests)
    found |= epochs(sends)
    return found


def is_whole(lines):
    """Whether each partition's final reads, of which none begins with a seek, come to their last high watermark."""
    finals = [each for each in lines if each["f"] == "poll" and each["final"] and ok(each)]
    for last in {each["tp"]: each for each in finals if each["hw"] is not None}.values():
        read = [off for poll in finals if poll["tp"] == last["tp"] for off, _ in poll["recs"]]
        if max(read, default=-1) + 1 < last["hw"]:
            return False
    return True


def says_anything(lines):
    """Whether anything was acknowledged, polled or answered."""
    return any(
        (each["f"] == "send" and ok(each) and each["acks"] != "0")
        or (each["f"] == "poll" and (each["recs"] or each["hw"]))
        or each["f"] == "latest"
        for each in lines
    )


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
    acked = [s for s in sends if ok(s) and s["acks"] != "0" and s["off"] is not None and s["epoch"] is not None]
    for one, two in combinations(acked, 2):
        is_promised = one["acks"] == two["acks"] == QUORUM
        if all(one[name] == two[name] for name in ("tp", "off", "epoch")) and not is_promised:
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
    """Whether a record that was acknowledged behind it in the same epoch is still where it was acknowledged."""
    if lost["epoch"] is None or lost["off"] is None:
        return False
    final = [(tp, off, val) for poll, off, tp, val in records if ok(poll) and poll["final"]]
    return any(
        ok(send)
        and (send["tp"], send["epoch"]) == (lost["tp"], lost["epoch"])
        and (send["tp"], send["off"], send["val"]) in final
        and lost["off"] < send["off"]
        for send in sends
    )


def orders(send, records):
    """Whether its end says when the record that is read was written: not if acks=1 has acknowledged another copy."""
    if not ok(send) or send["acks"] == "0":
        return False
    polled = [off for _, off, tp, val in records if (tp, val) == (send["tp"], send["val"])]
    return send["acks"] == QUORUM or not polled or send["off"] in polled


def place(send, records):
    """The lowest offset at which a value was polled; else where it was acknowledged."""
    polled = [off for _, off, tp, val in records if (tp, val) == (send["tp"], send["val"])]
    if polled:
        return min(polled)
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
        if ok(poll) and poll["hw"] is not None and any(off >= poll["hw"] for off, _ in poll["recs"]):
            found.add("read-beyond-hw")
        for (one, _), (two, _) in pairwise(poll["recs"]):
            if ok(poll) and step(poll["tp"], one, two) > 1:
                found.add("int-poll-skip")
            if ok(poll) and step(poll["tp"], one, two) < 1:
                found.add("int-nonmonotonic-poll")
    for stream in {(poll["proc"], poll["tp"]) for poll in polls}:
        last = high = sought = newest = None
        for line in lines:
            if line["f"] == "seek" and (line["proc"], line["tp"]) == stream:
                last, sought = None, line["off"]
            if line["f"] != "poll" or (line["proc"], line["tp"]) != stream or not ok(line):
                continue
            epoch = line.get("epoch")
            if line["hw"] is not None and epoch != -1:
                goes_on = epoch is None or newest is None or epoch >= newest
                if high is not None and goes_on and line["hw"] < high:
                    found.add("nonmonotonic-hw")
                high, newest = line["hw"], epoch
            if line["recs"]:
                first = line["recs"][0][0]
                if sought is not None and any(its == stream[1] and sought <= off < first for its, off in offsets):
                    found.add("poll-skip")
                if sought is not None and first < sought:
                    found.add("nonmonotonic-poll")
                sought = None
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
            if orders(one, records) and end(one) < two["inv"] and other_place < its_place:
                found.add("G0-realtime")
        for poll, off, tp, _ in records:
            if ok(poll) and tp == one["tp"] and end(poll) < one["inv"] and its_place < off:
                found.add("G1c-realtime")
    for proc in {each["proc"] for each in sends}:
        for tp in {each["tp"] for each in sends}:
            mine = [(each, its) for each, its in placed if each["proc"] == proc and each["tp"] == tp]
            for (one, its_place), (_, other_place) in pairwise(mine):
                if other_place <= its_place and (orders(one, records) or one["idem"]):
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


def overclaims(sends, polls, records, latests):
    found = set()
    # What is visible is on a majority, and stays: no record that is lost explains it.
    for asked in latests:
        if is_end_told(asked, polls) and asked["off"] > end_of_log(asked, polls):
            found.add("future-latest")
    for poll in polls:
        if ok(poll) and poll["hw"] is not None and is_end_told(poll, polls) and poll["hw"] > end_of_log(poll, polls):
            found.add("future-hw")
    for send in sends:
        if not ok(send) or send["acks"] != "1" or send["off"] is None or not send["idem"]:
            continue
        read = offsets_of(send, records)
        if read and send["off"] not in read:
            behind = [
                each
                for each in sends
                if ok(each)
                and (each["tp"], each["epoch"]) == (send["tp"], send["epoch"])
                and each["off"] in offsets_of(each, records)
                and each["off"] > send["off"]
            ]
            if not fits(send, send["off"] + 1, sends, polls) or (send["epoch"] is not None and behind):
                found.add("duplicate")
    return found


def offsets_of(send, records):
    return {off for poll, off, tp, val in records if ok(poll) and (tp, val) == (send["tp"], send["val"])}


def fits(asked, length, sends, polls):
    """Whether the log may have been so long: its end now, and what began before the answer and may be gone."""
    there = {val for each in finals_of(asked, polls) for _, val in each["recs"]}
    may = [s for s in sends if s["tp"] == asked["tp"] and s["type"] != "fail" and s["inv"] <= end(asked)]
    may = [s for s in may if s["val"] not in there or s["acks"] != QUORUM]
    beyond = length - end_of_log(asked, polls)
    return beyond <= 0 or beyond <= len(may) or any(not s["idem"] for s in may)


def finals_of(asked, polls):
    return [each for each in polls if each["tp"] == asked["tp"] and each["final"] and ok(each)]


def is_end_told(asked, polls):
    return any(each["hw"] is not None for each in finals_of(asked, polls))


def end_of_log(asked, polls):
    finals = finals_of(asked, polls)
    return max([0, *(each["hw"] or 0 for each in finals), *(off + 1 for each in finals for off, _ in each["recs"])])


def epochs(sends):
    """Acknowledgements of acks=all come in rising epochs, in time, and along the log where no retry is answered."""
    told = [each for each in sends if ok(each) and each["acks"] != "0" and each["epoch"] is not None]
    for one in told:
        for two in told:
            if one["tp"] != two["tp"] or two["acks"] != QUORUM or one["epoch"] <= two["epoch"]:
                continue
            if end(one) < two["inv"]:
                return {"nonmonotonic-epoch"}
            is_placed = one["acks"] == QUORUM and one["off"] is not None and two["off"] is not None
            if is_placed and not one["idem"] and one["off"] < two["off"]:
                return {"nonmonotonic-epoch"}
    return set()
