"""`raftka dev`: a cluster of broker processes on this machine.

* `process_identity`  a pid with its start time, so that a recycled pid is never signalled.
* `ports`             which ports the brokers take.
* `cluster_file`      the data folder and `cluster.json`.
* `ephemeral`         folders that go away with their cluster.
* `launcher`          node folders and broker processes.
* `supervisor`        start, readiness, watching, stop.
* `membership`        brokers that join and leave a cluster that runs.
* `operations`        what `status`, `logs`, `kill`, `restart` and `stop` do from another terminal.
* `errors`            what can go wrong, in one line.
"""
