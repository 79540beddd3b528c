"""The command `raftka`.

* `main`       the entry point: commands put together, exit codes.
* `exit_codes` what a shell script may rely on.
* `options`    options that several commands share.
* `output`     tables, JSON and %-formats.
* `broker`     `raftka start` and `raftka config`.
* `dev`        `raftka dev`.
* `topic`      `raftka topic`.
* `produce`    `raftka produce`.
* `consume`    `raftka consume`.
* `cluster`    `raftka cluster`.
"""
