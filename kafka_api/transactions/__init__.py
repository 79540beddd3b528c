"""Transactions at their coordinator (RFC 0021, section 7).

Pure, with neither clock nor I/O:
- transaction: one transactional id's states; requests and times go in, records, answers and markers come out
- transaction_events: what goes in and what comes out
- transaction_steps: which record may follow which, and the invariants of that
- transaction_errors: which errors clients are answered with, by the version of their requests
- admission_codes: which code a batch gets that was not admitted
- id_pattern: patterns of ids that clients list

Around it:
- certain_level: whether the cluster uses transactions, asked before one is refused for that
- coordinator: what is said to requests about the ids that this broker keeps, by `kafka_api.coordinators.office`
- kept_transactions: the ids of one partition while this broker leads it in one term
- coordinator_means: what those ids use of their broker
- transaction_timeouts: the time-outs of their transactions
- held_transaction: one id there: its machine, who waits for it, its write
- marker_sender: the markers of decided transactions on their way
- transaction_counts: what the coordinator has done, for metrics
- options: bounds and times
"""
