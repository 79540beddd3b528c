"""A Kafka client of a few lines, for what no client library lets a benchmark do: a thousand members in one process.

* `connection`    one connection, one request at a time.
* `group_member`  a member of a group on a connection of its own; rebalances of a whole group, timed.
* `transactor`    a producer with a transactional id, by either protocol, and a reader at read_committed.
* `transactions`  such producers, which commit one transaction after the other for a while.

It is Python and takes time of its own, the same beside every broker.
"""
