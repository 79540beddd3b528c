"""What each anomaly and each figure means, in words for who has never met it."""

EXPLANATIONS = {
    "phantom": "A consumer got a value that no producer of this history has sent. Records do not come from nowhere:"
    " they are of another run, of another partition, or damaged.",
    "aborted-read": "A consumer got a value whose producer was told that it is certainly not in the log (Adya's G1a).",
    "future-read": "A poll that had ended returned a value whose send began only later.",
    "inconsistent-offsets": "One offset holds different values, for different consumers or for a consumer and a"
    " producer that was promised its place. Two logs exist under one name: a leader served what its successor does"
    " not have.",
    "inconsistent-acks": "One leader has acknowledged two values at the same offset within its epoch.",
    "duplicate": "One value is in the log twice: a retry counted as a new record. Idempotent producers are promised"
    " that it does not. Or it was acknowledged at a place that it never had, and that no leader's end explains.",
    "lost-write": "A record was acknowledged, and consumers have read beyond its offset without ever getting it. On a"
    " compacted partition: and no later record of its key explains that.",
    "unseen": "A record was acknowledged, and the final reads end before it, or it has no known offset and is nowhere:"
    " the end of the log was cut off after the answer.",
    "lost-read": "A consumer has read a record that the final reads do not return: it was shown before it was safe."
    " Or compaction has removed it, and no later record of its key is there.",
    "deleted-read": "A poll returned a record below an offset up to which everything had been deleted, as an answer"
    " before the poll said.",
    "poll-skip": "A process that reads on has left out an offset that holds a record: it will never get it.",
    "nonmonotonic-poll": "A process that reads on got an offset again, or an earlier one.",
    "int-poll-skip": "Within the records of one poll, an offset that holds a record is left out. On a compacted"
    " partition: a record that no later one of its key had replaced yet.",
    "int-nonmonotonic-poll": "Within the records of one poll, offsets do not rise.",
    "nonmonotonic-hw": "A process was told a high watermark, and later a lower one: what was visible is not any more.",
    "read-beyond-hw": "A poll returned a record at or beyond the high watermark that came with it: the broker has shown"
    " what it did not itself call safe.",
    "future-hw": "A poll came with a high watermark beyond every offset that a record ever had: the log ends before it,"
    " and too few visible records can have been lost to fill it.",
    "G0-realtime": "A record that was sent after another one had been acknowledged lies before it. Offsets are not"
    " handed out in the order of time: two leaders have written side by side.",
    "G1c-realtime": "A record that was sent after a later offset had been polled lies before that offset.",
    "nonmonotonic-send": "A process sent two records, one after the other, and they lie in the opposite order.",
    "nonmonotonic-epoch": "A record was acknowledged at acks=all in a lower epoch than one that had been acknowledged"
    " before it was sent, or than one that lies before it: a deposed leader has committed.",
    "stale-latest": "ListOffsets latest does not cover a record that was acknowledged at acks=all before it was asked:"
    " a leader that is none any more has answered.",
    "future-latest": "ListOffsets latest covers a record that was sent only after the answer, or offsets that no record"
    " ever had: the log ends before them, and too few sends can have been lost to fill them.",
    "nonmonotonic-latest": "ListOffsets latest was answered with less than to an earlier question.",
    "precommitted-read": "A consumer at read_committed got a record before the commit of its transaction was asked for:"
    " nobody can have decided it by then.",
    "torn-read": "A consumer at read_committed got a record of a transaction, and another record of it was"
    " passed over, or is in no final read (Adya's G1b). A transaction is there as a whole, or not at all.",
    "circular-read": "Transactions have read records of each other at read_committed, in a circle: each would have had"
    " to be committed before the next one (Adya's G1c).",
    "doubled-input": "Two transactions have worked off the same input, and the outputs of both are visible.",
    "lost-input": "An input has no visible output, and its consumer group has gone on behind it.",
    "nonmonotonic-lso": "A process was told a last stable offset, and later a lower one: what was decided is not any"
    " more.",
    "read-beyond-lso": "A poll at read_committed returned a record at or beyond the last stable offset that came with"
    " it: a transaction that begins there may still be open.",
    "resurrected-key": "A reader of a compacted partition got an older record of a key that had been deleted. Its"
    " tombstone had been removed, or is missing from the same final read: the removal came before all replicas were"
    " clean.",
    "write-cycle": "Transactions have appended to several keys in different orders (Adya's G0). Kafka's transactions do"
    " not isolate writers from each other.",
    "write-read-cycle": "A transaction has read of another one, and has appended to a key before it (Adya's G1c, by way"
    " of an order of writes).",
    "anti-dependency-cycle": "A circle of transactions, some of which have not read what others of them have appended"
    " (Adya's G2).",
    "not-linearizable": "No order of the operations, each taking effect between its beginning and its end, explains"
    " what was read. Shown are what was under way when the last explanation was lost, and who wrote the values.",
}

MEASURES = {
    "sends": "records that were sent",
    "acked": "of these, acknowledged",
    "polls": "polls of one partition",
    "polled": "records that polls returned",
    "polled-twice": "of these, records that the same process had polled before",
    "polled-twice-subscribed": "of these, in a group, where rebalances repeat some",
    "worst-realtime-lag-ms": "longest that a record was known to be there when a poll began that had yet to get it",
    "transactions": "transactions that were begun",
    "committed": "of these, committed, by an answer or because somebody has seen them",
    "unsure": "of these, committed or aborted for all that is known",
    "late-ends": "of these, read as they must not be, where a late end of their producer's own may be the cause",
    "appended": "values that transactions appended",
    "read": "values that transactions read",
    "keys": "registers",
    "widest-window": "most operations under way at a time on one key",
}
