"""Transactions in the history of partitions as logs: who committed what, and who read what of it.

* `marks`          collects what lines say of transactions: TransactionMarks.
* `outcomes`       how each transaction ended, as its producer knows it.
* `view`           the same in rows of sends, polls and records: TransactionView.
* `reads`          aborted-read, precommitted-read and torn-read.
* `stable_offsets` nonmonotonic-lso and read-beyond-lso.
* `inputs`         lost-input and doubled-input: consume, transform, produce.
* `circular`       circular-read: transactions that have read each other's records.
* `cycles`         strongly connected components and short cycles; `raftka.check.lists` uses it, too.
* `evidence`       the transactions of a history as the lines they were read from.
"""
