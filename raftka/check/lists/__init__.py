"""Transactions as lists of small operations: appends to keys and reads of keys, as Jepsen's workload has them.

A key is a partition at read_committed. An append is a record; a read is what a poll returned of the key.

* `history`  ListHistory: the transactions of a history, read from its lines.
* `index`    what the checks share: who appended what, what each key holds, who is committed.
* `reads`    what is wrong with what was read.
* `order`    circular-read, and the cycles that Kafka allows.
* `model`    all of them: `check_lists`.
"""
