"""Transactions as the logs of partitions tell them (RFC 0021).

- `open_transactions`: which transactions are open in a partition, and up to where its records are stable.
- `fences`: what an answer of a coordinator was judged by, until its batch gets its place.
"""
