"""`raftka audit`: the verdict of `raftka.check` on large histories, in many tasks (RFC 0014).

All of it but `topic` is plain Python: tests run it in one process, `raftka audit` on a Spark session's workers.

* `cluster`    where tasks run.
* `scratch`    what tasks leave for each other.
* `parts`      files in parts that are read side by side.
* `logs`       partitions as logs.
* `giants`     a large partition whose records are read often; `numbering` numbers its values.
* `registers`  registers, key by key.
* `lists`      transactions over lists, in one task.
* `topic`      a history that lies in a topic.
"""
