"""A Kafka client of a few lines, for what no client library lets a benchmark do: a thousand members in one process.

* `connection`    one connection, one request at a time.
* `group_member`  a member of a group on a connection of its own; rebalances of a whole group, timed.

It is Python and takes time of its own, the same beside every broker.
"""
