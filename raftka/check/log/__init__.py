"""The partition as a log: what was acknowledged at which level, what was read, and which of it cannot be.

* `columns`       LogHistory: a history as numpy columns; `lines` the way back.
* `builder`       makes one: LogHistoryBuilder, read_log_history; `raftka.check.value_numbers` numbers the values.
* `contradictions` what no history may say.
* `ends`          where each log ends by its final reads; `wholeness` whether these are enough to judge by.
* `index`         what the checks share; with `raftka.check.sessions`, `slots`, `sorting` and `running`.
* `values`        what was read: phantoms, aborted and future reads, moved and changed values.
* `losses`        what is missing; `deletions` what should be.
* `compaction`    what may be missing, because a later record of its key is there; `resurrections` deleted keys that
                  are read again.
* `sessions`      what one process saw, poll after poll.
* `realtime`      order of time against order of offsets.
* `epochs`        order of epochs.
* `overclaims`    answers beyond what the log could have held.
* `measures`      figures.
* `model`         all of them: `check_log`.
* `pieces`        a history taken apart by lines and by partitions.
* `blocks`        a partition in blocks of offsets; `spine` what holds them together.
"""
