"""The deterministic world: unchanged production code on virtual time, wire and disk, all drawn from one seed.

* `virtual_loop`  Scheduler, VirtualLoop: one asyncio loop per node over one shared virtual clock.
* `world`         World, SimNode: crash, restart, pause; run until an instant or a predicate.
* `sim_switch`    Switch, Link, Host: the wire between nodes and its faults (cuts, resets, slowness, dead machines).
* `sim_transport` SimTransport: one end of a connection, with delay, segments, back-pressure, half-open ends.
* `sim_network`   SimNetwork, SimListener: one process's access to the wire.
* `sim_disk`      SimDisk, SimFileSystem: page cache and durable image, faults, power loss.
* `sim_workers`   SimWorkers: blocking jobs at drawn instants.
* `trace`         Trace: hash of all events, the last ones readable.

What is attacked in it, and how it is judged (`make sim SEED=n`, `make sim-campaign SEEDS=a..b`):

* `cluster`       SimCluster: brokers' engines (cluster.node.Node) on simulated machines.
* `kafka_workload`  Kafka clients on machines of their own, and the checker's verdict on what they saw:
                  `kafka_producers`, `kafka_consumers` over `kafka_wire`; `recorder` writes their history.
* `watched_partitions`  tells the invariants what clients are answered.
* `workload`      producers and consumers that call a broker's partitions directly, and live and die with it.
* `nemesis`       the faults of a run, drawn as a swarm.
* `observer`      compares each replica with what was known of it, after each instant, and tells the invariants.
* `replica_view`  one replica as seen from outside; `history` the ground truth over all replicas and lives.
* `invariants`    what must hold, one file each.
* `run`           one seed: faults, then quiet and complete convergence; `campaign` many, on several processes.
"""
