"""Forced schedules: one story per file, told to unchanged production code on the simulated world.

Where a seeded run draws its faults, a scenario places each at a chosen moment; the invariants judge both alike.

* `scenario`  Scenario: a founded cluster with one partition; steers elections, links, crashes and writes.
"""
