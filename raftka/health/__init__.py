"""Whether a cluster is well: rules over a picture of it. Pure; `raftka doctor` and the broker share them.

* `picture`   what is known of a cluster: the doctor fills it by clients, a broker from its tables.
* `rules`     picture -> findings; `judge` applies all of them.
* `broker_rules` those that look at one broker after the other.
* `setting_rules` those about what is set: of topics, of brokers, and their versions.
* `move_rules` those about partitions that are being moved, and about features.
* `member_rules` those about brokers that are drained, emptied or replaced, and about raft0's voters.
* `compaction_rules` those about passes of log compaction that fail, and brokers that hold tombstones.
* `transaction_rules` those about transactions that nobody ends.
* `reasons`   causes and cures behind the reason of a broker that is not ready.
* `refusals`  a handshake that one broker refused, in words.
* `findings`  a finding: level, what, words, cause, cure.
"""
