"""Classic consumer groups (RFC 0009).

Pure, with neither clock nor I/O:
- group: one group's states; requests and times go in, answers, stores and timers come out
- group_events: what goes in and what comes out
- members, member: who belongs to a group, who leads it, which protocol all of them have
- rebalance_timing: how long a group waits for its members to join
- subscription: which topics a consumer's metadata names
- answered_errors: which errors each key of the group protocol is answered with
- deletion_parts: how a long list of deletions is written
- expiry: which committed offsets have outlived their retention

Around it:
- coordinator: what is said to requests about the groups that this broker keeps, by `kafka_api.coordinators.office`
- coordinated_partition: the groups of one partition while this broker leads it in one term
- held_group: one group there: its machine, its timer, its writes
- transactional_commits: offsets that are committed in transactions
- lag: how far the groups that are kept here are behind
- member_memory: what all members at a broker take
- options: bounds and times
"""
