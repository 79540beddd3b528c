"""Bugs that the simulation must catch: each is planted in memory, and the campaign's own profile has to find it.

A harness that has never seen a bug proves nothing by being green. Each function below breaks one rule of the product
until its `patch` is undone; the table says where the bug is known from and who must object to it: an invariant, or an
anomaly of the checker. A run that ends by an assertion of the product, or by any other crash, does not count.

* `known_bug`      what a planted bug is; `objectors` who may object; `table` all of them.
* `elections`, `agreement`, `replication`, `log_start`, `grey_failures`     bugs of the engine.
* `storage_writes`, `storage_recovery`                     bugs of the log on disk.
* `produce`, `idempotence`, `fetch`, `groups`, `admin`              bugs of the Kafka layer and of raft0.
* `invariants_alone`  for every invariant a bug to which it objects when it is the only one that looks.
* `hunt`, `hunts`  search the seeds of one bug, and of many; `pins` the seed that showed each last (`seeds.json`).
* `report`         the page docs/verification/known-bugs.md; `python -m tests.simulation.known_bugs` writes it.
"""
