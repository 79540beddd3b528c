"""Forced schedules: one story per file, told to unchanged production code on the simulated world.

Where a seeded run draws its faults, a scenario places each at a chosen moment; the invariants judge both alike.

* `scenario`           Scenario: a founded cluster, mostly of one partition; steers elections, links, crashes and writes.
* `transaction_story`  TransactionStory: one with transactions; its producers go one step at a time.
"""
