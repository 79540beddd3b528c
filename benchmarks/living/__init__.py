"""Clusters that change while they run: what a move, a restart, a new broker and a lost disk cost.

* `moves`           p99 beside a move, its CPU time beside Apache Kafka's, and how exact its throttle is.
* `joint_failover`  a leader that is killed while old and new replicas decide together.
* `rolling_restart` each broker in turn, under load.
* `new_brokers`     a broker that joins, and one that lost its disk; `raft0_learner` one without a vote in raft0.
* `verbs`           changes that the admin port takes.
"""
