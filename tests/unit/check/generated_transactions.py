"""Random transactional histories of a cluster that keeps its promises, and faults that are planted in them."""

from dataclasses import dataclass, field

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"


@dataclass
class Partition:
    """A log: each offset has [value or None for a marker, transaction or None]; which transactions have a marker."""

    entries: list = field(default_factory=list)
    ended: set = field(default_factory=set)

    def lso(self, decided):
        open_at = [at for at, (val, txn) in enumerate(self.entries) if val and txn and txn not in self.ended]
        return min(open_at, default=len(self.entries))

    def visible(self, iso, decided):
        """The records that a reader may get."""
        if iso == UNCOMMITTED:
            return [(at, val) for at, (val, _) in enumerate(self.entries) if val]
        return [
            (at, val)
            for at, (val, txn) in enumerate(self.entries[: self.lso(decided)])
            if val and (txn is None or decided[txn] == "commit")
        ]


class Cluster:
    """What the brokers and the clients of a run know; `lines` is the history."""

    def __init__(self, rng):
        self.rng = rng
        self.lines = []
        self.now = 0
        self.logs = {tp: Partition() for tp in ("in-0", "out-0", "out-1")}
        self.decided = {}
        # Markers that are still to be written, as (partition, transaction).
        self.markers = []
        # Of each producer the transaction that it has open, with its partitions and the inputs that it has taken.
        self.open = {}
        self.count = 0
        self.positions = {}
        # How far the group's committed transactions came in in-0.
        self.worked = 0
        self.working = None

    def line(self, f, proc, duration=1, **fields):
        self.now += 2
        line = {"f": f, "type": "ok", "proc": proc, "inv": self.now, "ret": self.now + duration, **fields}
        self.now += duration
        self.lines.append(line)
        return line

    def new(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def step(self):
        actions = [self.plain, self.begin, self.send, self.send, self.send, self.work, self.work, self.end, self.mark]
        self.rng.choice([*actions, self.mark, self.poll, self.poll, self.poll])()

    def plain(self):
        self.append("in-0", None, proc=100)

    def begin(self):
        producer = self.rng.randrange(3)
        if producer in self.open or any(txn in self.owned(producer) for _, txn in self.markers):
            return
        txn = f"p{producer}-{self.new('t')}"
        self.open[producer] = {"txn": txn, "tps": [], "inputs": []}
        self.line("txn", 200 + producer, txn=txn, do="begin", id=f"p{producer}", epoch=1)

    def owned(self, producer):
        return [txn for txn in self.decided if txn.startswith(f"p{producer}-")]

    def append(self, tp, txn, proc, **fields):
        kind = self.rng.choice(["ok"] * 6 + ["info", "fail"]) if txn is None else "ok"
        val = self.new("v")
        log = self.logs[tp]
        off = None
        if kind == "ok" or (kind == "info" and self.rng.random() < 0.5):
            off = len(log.entries)
            log.entries.append((val, txn))
        known = off if kind == "ok" and self.rng.random() < 0.9 else None
        marks = {"txn": txn} if txn else {}
        self.line("send", proc, tp=tp, acks="all", idem=True, val=val, off=known, **marks, **fields)
        self.lines[-1]["type"] = kind

    def send(self):
        producer = self.rng.randrange(3)
        if producer not in self.open or producer == self.working:
            return
        tp = self.rng.choice(["out-0", "out-1"])
        its = self.open[producer]
        its["tps"] = sorted({*its["tps"], tp})
        self.append(tp, its["txn"], proc=200 + producer)

    def work(self):
        """One producer at a time works off the input; it takes what is visible at read_committed, in order."""
        if self.working is None:
            free = sorted(each for each in self.open if not self.open[each]["tps"])
            if not free:
                return
            self.working = free[0]
        its = self.open[self.working]
        begin = its["inputs"][-1] + 1 if its["inputs"] else self.worked
        todo = [off for off, _ in self.logs["in-0"].visible(COMMITTED, self.decided) if off >= begin]
        if not todo:
            return
        tp = self.rng.choice(["out-0", "out-1"])
        its["tps"] = sorted({*its["tps"], tp})
        its["inputs"].append(todo[0])
        self.append(tp, its["txn"], proc=200 + self.working, of=["in-0", todo[0]], group="g")

    def end(self):
        if not self.open:
            return
        producer = self.rng.choice(sorted(self.open))
        its = self.open.pop(producer)
        do = self.rng.choice(["commit", "commit", "abort"])
        kind = self.rng.choice(["ok", "ok", "info"])
        # Of an end that nobody was told of: it was asked for in vain, or the coordinator's time-out has aborted first.
        decision = do if kind == "ok" else self.rng.choice([do, "abort"])
        if producer == self.working:
            self.working = None
            if decision == "commit" and its["inputs"]:
                self.worked = its["inputs"][-1] + 1
        offsets = {"offsets": {"in-0": its["inputs"][-1] + 1}, "group": "g"} if its["inputs"] and do == "commit" else {}
        self.decided[its["txn"]] = decision
        self.markers += [(tp, its["txn"]) for tp in its["tps"]]
        line = self.line("txn", 200 + producer, txn=its["txn"], do=do, id=f"p{producer}", epoch=1, version=4, **offsets)
        line["type"] = kind

    def mark(self):
        if not self.markers:
            return
        tp, txn = self.markers.pop(self.rng.randrange(len(self.markers)))
        self.logs[tp].entries.append((None, txn))
        self.logs[tp].ended.add(txn)

    def poll(self):
        tp, reader = self.rng.choice(sorted(self.logs)), self.rng.randrange(3)
        iso = UNCOMMITTED if reader == 2 else COMMITTED
        log = self.logs[tp]
        at = self.positions.get((reader, tp), 0)
        recs = [each for each in log.visible(iso, self.decided) if each[0] >= at][: self.rng.randrange(1, 5)]
        self.positions[reader, tp] = recs[-1][0] + 1 if recs else at
        lso = self.rng.choice([None, log.lso(self.decided)])
        self.line("poll", reader, tp=tp, recs=recs, hw=len(log.entries), lso=lso, iso=iso)

    def finish(self):
        for its in self.open.values():
            # Its time is over; its producer was told nothing.
            self.decided[its["txn"]] = "abort"
            self.markers += [(tp, its["txn"]) for tp in its["tps"]]
        while self.markers:
            self.mark()
        for number, tp in enumerate(self.logs):
            recs = self.logs[tp].visible(COMMITTED, self.decided)
            self.line("poll", 300 + number, tp=tp, recs=recs, iso=COMMITTED, final=True)


def transactional_history(rng, steps=80):
    """Return a cluster whose `lines` are a valid history."""
    cluster = Cluster(rng)
    for _ in range(steps):
        cluster.step()
    cluster.finish()
    return cluster


# Each fault changes the lines of a cluster, and returns whether there was something to change.


def _ends(cluster, do):
    return {
        each["txn"]: each for each in cluster.lines if each["f"] == "txn" and each["do"] == do and each["type"] == "ok"
    }


def _sends(cluster, txns):
    return [each for each in cluster.lines if each["f"] == "send" and each.get("txn") in txns and each["type"] == "ok"]


def _polls(cluster, **fields):
    polls = [each for each in cluster.lines if each["f"] == "poll" and each["iso"] == COMMITTED]
    return [each for each in polls if all(each.get(name, False) == value for name, value in fields.items())]


def _final(cluster, tp):
    return _polls(cluster, final=True, tp=tp)[0]


def _place(cluster, send):
    """Where a record lies, which its sender may not know."""
    return next(at for at, (val, _) in enumerate(cluster.logs[send["tp"]].entries) if val == send["val"])


def show_aborted(cluster, rng):
    sends = _sends(cluster, _ends(cluster, "abort"))
    if not sends:
        return False
    send = rng.choice(sends)
    final = _final(cluster, send["tp"])
    final["recs"] = sorted([*final["recs"], (_place(cluster, send), send["val"])])
    return True


def show_before_commit(cluster, rng):
    commits = _ends(cluster, "commit")
    sends = _sends(cluster, commits)
    if not sends:
        return False
    send = rng.choice(sends)
    at = commits[send["txn"]]["inv"] - 1
    recs = [(_place(cluster, send), send["val"])]
    poll = {"f": "poll", "type": "ok", "proc": 400, "inv": at, "ret": at, "tp": send["tp"], "recs": recs}
    cluster.lines.append(poll | {"iso": COMMITTED})
    return True


def tear(cluster, rng):
    sends = _sends(cluster, _ends(cluster, "commit"))
    torn = [each for each in sends if any(each["txn"] == other["txn"] and each is not other for other in sends)]
    if not torn:
        return False
    send = rng.choice(torn)
    for poll in cluster.lines:
        if poll["f"] == "poll" and poll["tp"] == send["tp"]:
            poll["recs"] = [each for each in poll["recs"] if each[1] != send["val"]]
    return True


def read_in_a_circle(cluster, rng):
    sends = _sends(cluster, _ends(cluster, "commit"))
    one = rng.choice(sends) if sends else None
    others = [each for each in sends if each["txn"] != one["txn"]]
    if not others:
        return False
    two = rng.choice(others)
    for number, (send, reader) in enumerate([(one, two), (two, one)]):
        recs = [(_place(cluster, send), send["val"])]
        cluster.line("poll", 400 + number, tp=send["tp"], recs=recs, iso=COMMITTED, txn=reader["txn"])
    return True


def work_off_twice(cluster, rng):
    sends = _sends(cluster, _ends(cluster, "commit"))
    worked = [each for each in sends if "of" in each]
    pairs = [(one, two) for one in worked for two in sends if one["txn"] != two["txn"]]
    if not pairs:
        return False
    one, two = rng.choice(pairs)
    two["of"], two["group"] = one["of"], "g"
    return True


def lose_an_output(cluster, rng):
    """Not the first input, which would be taken for the group's beginning, nor the last."""
    worked = [each for each in _sends(cluster, _ends(cluster, "commit")) if "of" in each]
    offsets = [each["of"][1] for each in worked]
    lost = [each for each in worked if min(offsets) < each["of"][1] < max(offsets)]
    if not lost:
        return False
    send = rng.choice(lost)
    del send["of"]
    return True


def take_back_the_stable_offset(cluster, rng):
    polls = [each for each in _polls(cluster, final=False) if each["lso"]]
    pairs = [
        (one, two)
        for at, one in enumerate(polls)
        for two in polls[at + 1 :]
        if (one["proc"], one["tp"]) == (two["proc"], two["tp"])
    ]
    if not pairs:
        return False
    one, two = rng.choice(pairs)
    one["lso"] = two["lso"] + 1
    return True


def read_beyond_the_stable_offset(cluster, rng):
    polls = [each for each in _polls(cluster) if each["recs"]]
    if not polls:
        return False
    poll = rng.choice(polls)
    poll["lso"] = poll["recs"][-1][0]
    return True


FAULTS = {
    "aborted-read": show_aborted,
    "precommitted-read": show_before_commit,
    "torn-read": tear,
    "circular-read": read_in_a_circle,
    "doubled-input": work_off_twice,
    "lost-input": lose_an_output,
    "nonmonotonic-lso": take_back_the_stable_offset,
    "read-beyond-lso": read_beyond_the_stable_offset,
}


def as_lists(cluster):
    """Return the same run as a history of lists: one line per transaction; plain records and polls are alone."""
    txns, lines, proc = {}, [], 1000
    for line in cluster.lines:
        proc += 1
        if line["f"] == "poll" and line["iso"] == COMMITTED:
            ops = [["read", line["tp"], line["recs"]]]
            times = {"inv": line["inv"], "ret": line["ret"], "final": line.get("final", False)}
            lines.append({"f": "txn", "type": "ok", "proc": proc, "ops": ops, **times})
        elif line["f"] == "send":
            append = ["append", line["tp"], line["val"], line["off"]]
            its = txns.get(line.get("txn"))
            if its is None:
                its = {
                    "f": "txn",
                    "type": line["type"],
                    "proc": proc,
                    "inv": line["inv"],
                    "ret": line["ret"],
                    "ops": [],
                }
                lines.append(its)
            its["ops"].append(append)
        elif line["f"] == "txn" and line["do"] == "begin":
            its = txns[line["txn"]] = {
                "f": "txn",
                "type": "fail",
                "proc": proc,
                "inv": line["inv"],
                "ret": None,
                "ops": [],
            }
            lines.append(its)
        elif line["f"] == "txn":
            its = txns[line["txn"]]
            kind = {"ok": "ok", "info": "info"}[line["type"]] if line["do"] == "commit" else "fail"
            its |= {"type": kind, "ret": line["ret"], "asked": line["inv"]}
    return lines
