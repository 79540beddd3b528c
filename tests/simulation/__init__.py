"""The deterministic world: unchanged production code on virtual time, wire and disk, all drawn from one seed.

* `world`       the simulated machines: virtual time, disk and wire, their faults, and who watches the brokers on them.
* `clients`     what clients do to the cluster, and what they write down.
* `invariants`  what must hold, one file each.
* `campaign`    one run from one seed, many runs on many processes, and their report.
* `scenarios`   schedules, step by step: figures of a paper, and bugs that were found.
* `rows`        the rows of docs/seed-rows.md and their proofs.
* `known_bugs`  planted bugs, each of which a run must find.

`make sim SEED=n` replays one run, `make sim-campaign SEEDS=a..b` many.
"""
