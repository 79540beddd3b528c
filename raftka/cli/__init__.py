"""The command `raftka`.

The command itself:

* `main`       the entry point.
* `root`       the table of commands, errors of one line.
* `lazy_group` groups of commands, which are imported when they are asked for.
* `examples`   examples of every command.
* `interrupts` Ctrl-C while modules are imported, SIGTERM that works like it, both as the end of an input.
* `completion` `raftka completion`, and names of topics, groups and keys for shells.
* `exit_codes` what a shell script may rely on, and the errors behind it.

What several commands share:

* `options`      options.
* `param_types`  types of options and arguments.
* `output`       tables and JSON.
* `positions`    start, end, N, -N and @time.
* `format_text`  the text of a record format; `record_format` prints by it, `record_input` reads by it, numbers in
  binary and hex as `number_format` has them.
* `input_buffer` bytes up to a delimiter.
* `input_stream` bytes of which Ctrl-C is an end.
* `admin_verbs`  what changes the cluster by the brokers' admin ports.
* `progress`     why a partition is neither read nor written.
* `progress_bar` how far long work is.
* `unserved`     why a broker that takes connections serves nobody.

Commands:

* `broker`    `raftka start` and `raftka config`.
* `brokers`   `raftka broker`; `broker_wait` waits for what was begun.
* `dev`       `raftka dev`.
* `topic`     `raftka topic`, with `topic_replication`.
* `partition` `raftka partition`, with `partition_rows`, `partition_leaders` and `partition_moves`; `move_wait` waits
              for moves.
* `produce`   `raftka produce`, with `record_writer` and `transaction_writer`.
* `consume`   `raftka consume`, with `assigned_reader`, `group_reader`, `partition_ends` and `record_sink`.
* `group`     `raftka group`.
* `txn`       `raftka txn`, with `txn_hanging`.
* `cluster`   `raftka cluster`, with `cluster_config`, `cluster_features` and `cluster_log_level`.
* `bench`     `raftka bench`, with `bench_load`.
* `doctor`    `raftka doctor`, with `machine_checks`, `clock_state`, `cluster_picture` and `admin_picture`.
* `debug`     `raftka debug`.
* `check`     `raftka check`.
* `chaos`     `raftka chaos`.
* `pipeline`  `raftka pipeline`.
* `archive`   `raftka archive`.
* `telemetry` `raftka telemetry`.
* `audit`     `raftka audit`.
* `generate`  `raftka generate`, with `generate_deployment` and `generate_monitoring`; `generated_file` writes what a
              command of the former prints.
"""
