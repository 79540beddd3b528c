"""The broker process: the composition root, which nothing imports.

* `__main__`        puts the broker's packages on the path and runs the application; exit codes.
* `package_path`    where those packages are.
* `application`     wiring, start and stop order, signals.
* `described_options`  the options as DescribeConfigs tells them; `dynamic_options` what is set while the broker runs.
* `admin_access`    which requests the admin port refuses: those that a web page made a browser send.
* `admin_http`      the admin port: readiness, partitions, brokers, metrics; `admin_parameters`: what its paths take.
* `admin_verbs`     how verbs run there: JSON in and out, dry runs, who may change something; `verb_table` has them all,
                    `move_verbs` those that move partitions, `leader_verbs` those about who leads them, `broker_verbs`
                    those about brokers, `feature_verbs` those about features, `config_verbs` those about options that
                    are set while brokers run.
* `broker_rows`     the brokers as the admin port tells them.
* `bounds`          how full each state table is.
* `can_listen`  whether its addresses are free, before anything else.
* `admin_listener`  its socket: how many connections, for how long.
* `exit_codes`      with what the process ends: whether a restart can help.
* `event_json`      events as the admin port tells them.
* `health`          what this broker finds wrong with the cluster; `stall_watch`: what commits nothing;
                    `leader_memory`: when partitions last had a leader; `transaction_watch`: for how long transactions
                    have been open.
* `file_limits`     open files and sockets: the limit, and who gets what of it.
* `memory_limit`    how much memory there is.
* `loop_errors`     what ends the broker, and what does not.
* `loop_watch`      how late the event loop is, how long the garbage collector stops it; `loop_watchdog` ends a broker
                    whose loop stands still for good.
* `partition_json`  all partitions as the admin port tells them.
* `permissions`     who else can read the secret and the data directory.
* `service_manager` READY=1 and signs of life for systemd (sd_notify).
* `metrics`         what is measured of the node, for Prometheus; `kafka_metrics`: of the Kafka listener;
                    `partition_metrics`: of partitions; `group_lag_metrics`: of groups; `call_metrics`: of calls;
                    `move_metrics`: of moves; `transaction_metrics`: of transactions;
                    `compaction_metrics`: of log compaction.
* `metric_rows`     what these yield; `exposition` writes it, and `scrapes` does so in slices and answers.
* `readiness`       whether this broker serves, and if not, why; `starting`: the same while it starts.
* `logs`            where log lines go.

A program of its own, which starts no broker:

* `dump_log`        what `raftka debug log` prints, from files alone; `offline` reads them.
"""
