"""`raftka chaos`: real processes under real faults, judged by the history checker.

* `run`                 one run from its cluster to its verdict; `run_facts` its request, its facts and its judgement.
* `run_folder`          where it leaves everything; empty again where it could not begin.
* `interruption`        Ctrl-C, and waits that it ends.
* `schedule`            what is done and when, as data drawn from a seed.
* `nemesis`             does it and takes it back: to processes and disks itself, by the next three to all else.
* `link_faults`         cuts and throttles links.
* `hand_overs`          lets leaders hand over.
* `membership`          moves partitions, lets brokers join and leave, replaces disks; asks by `broker_admin`.
* `cluster`             `raftka dev`, and what may be done to its processes.
* `network_namespace`   links that can be cut and throttled.
* `small_disks`         disks that can be filled.
* `vanished_directories`  data directories that are away for a while.
* `log_workload`        partitions as logs; on it work `wire_producer`, `wire_consumer` and `librdkafka_clients`.
* `compacted_workload`  a compacted topic whose keys are overwritten and deleted; `compaction_watch` counts passes.
* `keyed_records`       what producers send, with and without keys, and the names of records in histories.
* `transaction_workload`  partitions as lists, which `transactors` append to and read in transactions.
* `register_workload`   topic names as compare-and-set objects, through `topic_admin`.
* `leadership`          who leads, as brokers tell.
* `workload`            what a run needs of any workload.
* `history`             what clients saw, as it happens; `latencies`, `pacing`, `load` serve it and the workloads.
* `broker_logs`         what brokers' logs say of elections and truncations.
* `duplicates`          whether the brokers or the client wrote a record twice.
* `losses`              at acks=1: what is lost beside what was truncated.
* `judgement`           the verdict, and whether the run proves anything; `summary` and `report` show it, with `charts`.
* `dead_threads`        clients of the run that ended with an error: such a run is not valid.
* `loop_thread`         an event loop beside a nemesis that blocks.
* `errors`              what can go wrong with a run itself.

Half of the clients are librdkafka, which is what programs use. The other half is `raftka.kafka.wire`: it sends each
request once and knows which broker answered, which a history needs and librdkafka hides; and a bug that the brokers'
codec has on both sides of a connection would be invisible to a client that shared it. So this package imports nothing
of the brokers.
"""
