"""Random small histories: a cluster that keeps its promises, and then, in some, something that it should not do."""


def history(rng, steps=None, spoilt=None):
    """Return the lines of one history, in the order of time of each process; so long and so often spoilt."""
    tps = ["t-0", "t-1"][: rng.choice([1, 1, 2])]
    lines, logs = [], {tp: [] for tp in tps}
    clocks = {}
    now = 0
    value = 0
    positions = {}
    epoch = 1
    for _ in range(steps or rng.randrange(2, 14)):
        now += rng.randrange(1, 10)
        epoch += rng.random() < 0.2
        tp = rng.choice(tps)
        kind = rng.choice(["send", "send", "send", "poll", "poll", "latest", "seek"])
        proc = rng.randrange(4) + {"send": 10, "poll": 20, "latest": 30, "seek": 20}[kind]
        inv = max(clocks.get(proc, 0) + 1, now - rng.randrange(0, 12))
        ret = inv + rng.randrange(1, 12)
        clocks[proc] = ret
        common = {"proc": proc, "inv": inv, "ret": ret, "tp": tp}
        if kind == "send":
            value += 1
            line = {"f": "send", "type": rng.choice(["ok", "ok", "ok", "info", "fail"]), **common}
            line |= {"acks": rng.choice(["all", "all", "1", "0"]), "val": f"v{value}", "idem": rng.random() < 0.7}
            line |= {"off": None, "epoch": rng.choice([None, epoch, epoch])}
            if line["type"] == "ok" or (line["type"] == "info" and rng.random() < 0.5):
                logs[tp].append(line["val"])
            if line["type"] == "ok" and line["acks"] != "0" and rng.random() < 0.9:
                line["off"] = len(logs[tp]) - 1
            if line["type"] == "info" and rng.random() < 0.5:
                line["ret"] = None
            lines.append(line)
        elif kind == "poll":
            at = positions.get((proc, tp), 0)
            recs = list(enumerate(logs[tp]))[at : at + rng.randrange(0, 4)]
            positions[proc, tp] = at + len(recs)
            hw = rng.choice([None, len(logs[tp])])
            named = {"epoch": rng.choice([None, -1, epoch, max(0, epoch - 1)])} if rng.random() < 0.5 else {}
            lines.append({"f": "poll", "type": "ok", **common, "recs": recs, "hw": hw, "final": False, **named})
        elif kind == "latest":
            lines.append({"f": "latest", "type": "ok", **common, "off": len(logs[tp])})
        else:
            positions[proc, tp] = to = rng.choice([0, rng.randrange(len(logs[tp]) + 1)])
            told = to + rng.choice([0, 0, 0, 0, 1, -1])
            lines.append({"f": "seek", **common, "off": rng.choice([max(0, told), None])})
    for number, tp in enumerate(tps):
        lines.append(
            {"f": "poll", "type": "ok", "proc": 40 + number, "inv": now + 100, "ret": now + 101, "tp": tp}
            | {"recs": list(enumerate(logs[tp])), "hw": rng.choice([None, len(logs[tp])]), "final": True}
        )
    for _ in range(rng.choice([0, 0, 1, 1, 2]) if spoilt is None else spoilt):
        spoil(rng, lines)
    return lines


def spoil(rng, lines):
    """Change one line as a broken cluster would."""
    polls = [each for each in lines if each["f"] == "poll" and each["recs"]]
    sends = [each for each in lines if each["f"] == "send"]
    latests = [each for each in lines if each["f"] == "latest"]
    choice = rng.randrange(8)
    if choice < 5 and polls:
        poll = rng.choice(polls)
        at = rng.randrange(len(poll["recs"]))
        off, val = poll["recs"][at]
        if choice == 0:
            del poll["recs"][at]
        elif choice == 1:
            poll["recs"][at] = (off + rng.choice([1, -1, 3]), val) if off else (off + 1, val)
        elif choice == 2:
            poll["recs"][at] = (off, f"v{rng.randrange(1, 12)}")
        elif choice == 3:
            poll["recs"].insert(at, poll["recs"][rng.randrange(len(poll["recs"]))])
        else:
            poll["hw"] = rng.randrange(0, 4)
    elif choice < 7 and sends:
        send = rng.choice(sends)
        if rng.random() < 0.3:
            send["epoch"] = rng.randrange(1, 4)
        elif send["off"] is not None:
            send["off"] = max(0, send["off"] + rng.choice([-1, 1]))
        else:
            send["type"] = "fail"
    elif latests:
        latest = rng.choice(latests)
        latest["off"] = max(0, latest["off"] + rng.choice([-1, 1]))


def register_history(rng):
    """Return the lines of a history of registers, sound or not, in the order of time of each process."""
    lines, clocks = [], {}
    values = [1, 1.5, "a", None, {"b": 1, "a": [2]}, 10, 2, True]
    state = {}
    now = 0
    for _ in range(rng.randrange(2, 40)):
        now += rng.randrange(1, 6)
        proc, key = rng.randrange(6), rng.choice(["x", "y", "z\u00e9"])
        inv = max(clocks.get(proc, 0) + 1, now - rng.randrange(8))
        ret = inv + rng.randrange(10)
        clocks[proc] = ret
        kind = rng.choice(["read", "read", "write", "write", "cas"])
        type_ = rng.choice(["ok"] * 6 + ["info", "fail"])
        line = {"f": kind, "type": type_, "proc": proc, "inv": inv, "ret": ret, "key": key}
        if type_ == "info" and rng.random() < 0.5:
            line["ret"] = None
            clocks[proc] = inv
        if kind == "read":
            line["out"] = rng.choice([state.get(key)] * 9 + values)
        elif kind == "write":
            state[key] = line["in"] = rng.choice(values)
        else:
            line["in"] = [rng.choice([state.get(key), *values]), rng.choice(values)]
            line["out"] = rng.random() < 0.6
            if line["out"]:
                state[key] = line["in"][1]
        if rng.random() < 0.003:
            line["inv"] -= 50
        lines.append(line)
    return lines
