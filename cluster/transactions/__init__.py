"""Transactions as the logs of partitions and coordinators tell them (RFC 0021).

- `level`: what the cluster uses of the feature.

In a partition that transactions write to:
- `open_transactions`: which transactions are open in a partition, and up to where its records are stable.
- `log_state`: what a log state has beside its own methods if transactions may be open in its log.
- `admission`: the question of a partition's leader whether a batch may open a transaction.
- `fences`: what an answer of a coordinator was judged by, until its batch gets its place.
- `markers`: the ends of transactions, on their way to the leaders of the partitions.
- `marker_writer`: what those leaders make of them.
- `aborted`: which transactions readers leave out.

In `__transaction_state`:
- `records`: keys and values in Kafka's own formats.
- `transaction_table`: the states of transactional ids that committed records have left.
- `transactions_log_state`: the table behind a log: noted, committed, in snapshots.
- `transactions_topic`: the topic's name, its configuration, and which partition keeps a transactional id.
"""
