"""The registry of planted bugs: each breaks one rule of the product in memory, and the proofs have to notice it.

A harness that has never seen a bug proves nothing by being green. Each function below breaks one rule of the product
until its `patch` is undone; `table.plant` plants it by name. The table says where the bug is known from and who must
object to it: an invariant, or an anomaly of the checker. A run that ends by an assertion of the product, or by any
other crash, does not count. A bug without objectors is not hunted: it switches off one mechanism of the seed RFC, and
the proof of a row in `tests.simulation.rows` must fail with it.

* `known_bug`      what a planted bug is; `objectors` who may object; `table` all of them.
* `elections`, `agreement`, `rounds`, `replication`, `recovery`, `leadership_transfer`, `log_start`, `grey_failures`
                   bugs of the engine.
* `membership`, `brokers`  bugs of how members and brokers change, hunted in living runs.
* `links`          bugs of what protects the bytes between two brokers.
* `storage_writes`, `storage_recovery`                     bugs of the log on disk.
* `produce`, `idempotence`, `transactions`, `fetch`, `groups`, `lag`, `admin`   bugs of the Kafka layer and of raft0.
* `events`, `counts`                                               bugs in what brokers report to operators.
* `by_scenario`      bugs that a test plants by itself, because only a written schedule shows them.
* `invariants_alone`  for every invariant a bug to which it objects when it is the only one that looks.
* `hunt`, `hunts`  search the seeds of one bug, and of many; `pins` the seed that showed each last (`seeds.json`).
* `report`         the page docs/verification/known-bugs.md; `python -m tests.simulation.known_bugs` writes it.
"""
