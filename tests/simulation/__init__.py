"""The deterministic world: unchanged production code on virtual time, wire and disk, all drawn from one seed.

* `virtual_loop`  Scheduler, VirtualLoop: one asyncio loop per node over one shared virtual clock.
* `world`         World, SimNode: crash, restart, pause; run until an instant or a predicate.
* `sim_switch`    Switch, Link, Host: the wire between nodes and its faults (cuts, resets, slowness, dead machines).
* `sim_transport` SimTransport: one end of a connection, with delay, segments, back-pressure, half-open ends.
* `sim_network`   SimNetwork, SimListener: one process's access to the wire.
* `sim_disk`      SimDisk, SimFileSystem: page cache and durable image, faults, power loss.
* `sim_workers`   SimWorkers: blocking jobs at drawn instants.
* `trace`         Trace: hash of all events, the last ones readable.
"""
