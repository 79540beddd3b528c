"""The rows of the seed RFC ("replicate with relaxed consistency"), each proven by behaviour (docs/seed-rows.md).

* `row`                 what a row is: its sentence, its proof, the planted bugs that must make the proof fail.
* `levels`              P1 to P5, P21: what the consistency levels promise.
* `one_path`            P6, P7, P8, P11: batcher and replicate_entries_stm.
* `hand_over`           P16, P18, P19: recovery_stm.
* `transfers`           P20: leadership_transfer.
* `table`               all rows, with their bugs of `tests.simulation.known_bugs`.
"""
