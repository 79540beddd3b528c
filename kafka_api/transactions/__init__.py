"""Transactions at their coordinator (RFC 0021, section 7).

Pure, with neither clock nor I/O:
- transaction: one transactional id's states; requests and times go in, records, answers and markers come out
- transaction_events: what goes in and what comes out
- transaction_steps: which record may follow which, and the invariants of that
- transaction_errors: which errors clients are answered with, by the version of their requests
"""
