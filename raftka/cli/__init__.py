"""The command `raftka`.

* `main`       the entry point.
* `root`       the commands put together, errors of one line.
* `exit_codes` what a shell script may rely on.
* `options`    options that several commands share.
* `progress`   why a partition is neither read nor written.
* `output`     tables, JSON and %-formats.
* `broker`     `raftka start` and `raftka config`.
* `dev`        `raftka dev`.
* `topic`      `raftka topic`.
* `partition`  `raftka partition`.
* `produce`    `raftka produce`.
* `consume`    `raftka consume`.
* `cluster`    `raftka cluster`.
* `check`      `raftka check`.
"""
