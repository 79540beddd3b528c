"""What coordinators have in common: of consumer groups (RFC 0009) and of transactions (RFC 0021, section 7).

A coordinator is the leader of a partition of an internal topic. It has machines in memory and their records in the log,
for one term.

- office: which partitions of the topic this broker keeps, since when, and who keeps the others
- shared_writes: the writes of many machines share entries, rounds and fsyncs
- topic_creation: the internal topic comes to be
- coordinator_errors: errors of the engine as clients of a coordinator get them
"""
