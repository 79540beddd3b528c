"""The deterministic world: unchanged production code on virtual time, wire and disk, all drawn from one seed.

* `virtual_loop`  Scheduler, VirtualLoop: one asyncio loop per node over one shared virtual clock.
* `world`         World, SimNode: crash, restart, pause; run until an instant or a predicate.
* `sim_network`   Switch, Link, SimTransport, SimNetwork: connections with delay, cuts, resets, half-open ends.
* `sim_disk`      SimDisk, SimFileSystem: page cache and durable image, faults, power loss.
* `sim_workers`   SimWorkers: blocking jobs at drawn instants.
* `trace`         Trace: hash of all events, the last ones readable.
"""
