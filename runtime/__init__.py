"""The only package that touches the outside: one file is one seam.

* `clock`    WallClock: record timestamps, retention, expiry. Monotonic time is always `loop.time()`.
* `files`    FileSystem, File: bytes on disk. Every method blocks; call them through Workers.
* `direct_io`  large writes past the page cache.
* `page_cache`  whether bytes of a file are in memory.
* `open_files`  OpenFiles: any number of files on a bounded number of descriptors.
* `network`  Network: bytes on the wire, as asyncio transports and protocols.
* `rng`      Rng: chance.
* `workers`  Workers: where blocking calls run (small thread pools).
* `child`    a blocking function in a process of its own.
* `injected_hangs`  Workers whose appends hang, for chaos runs.
* `environment`  Environment: the four seams and the workers, injected everywhere.
* `gate`     Gate: owner of background tasks.
* `log_levels`  the loggers, and how much each of them writes.
* `byte_budget`  ByteBudget: a fair semaphore counted in bytes.

The deterministic simulator (tests/simulation) implements the same protocols; there is no `if testing`.
"""
