"""The simulated machines: virtual time, disk and wire, their faults, and who watches the brokers on them.

* `virtual_loop`  Scheduler, VirtualLoop: one asyncio loop per node over one shared virtual clock.
* `world`         World, SimNode: crash, restart, pause; run until an instant or a predicate.
* `sim_switch`    Switch, Link, Host: the wire between nodes and its faults (cuts, resets, slowness, dead machines).
* `sim_transport` SimTransport: one end of a connection, with delay, segments, back-pressure, half-open ends.
* `sim_network`   SimNetwork, SimListener: one process's access to the wire.
* `sim_disk`      SimDisk, SimFileSystem: page cache and durable image, faults; `power_losses` what of it is lost.
* `sim_workers`   SimWorkers: blocking jobs at drawn instants.
* `trace`         Trace: hash of all events, the last ones readable.
* `cluster`       SimCluster: brokers' engines (cluster.node.Node) on simulated machines.
* `nemesis`       the faults of a run, drawn as a swarm; `ambush` faults that wait for their moment; `operators` transfers.
* `living`        what is done to members in a living run: moves of partitions; `living_probes` what it must have seen.
* `living_brokers`  what is done to brokers in one: they join, leave, get other disks; `errand` asks for one change.
* `observer`      compares each replica with what was known of it, after each instant, and tells the invariants.
* `replica_view`  one replica as seen from outside; `digested_state` the digest of a state that replicas share.
* `watched_partitions`  tells the invariants what clients are answered; `watched_leaves` which replicas leave a broker.
* `probes`        which rare states a run has reached; `endless_steps` steps of the loop that do not end.
* `transaction_probes`  the same of runs with transactions; `few_epochs` lets producers of such runs use up their epochs.
* `convergence`   what must hold once the faults are over.
"""
