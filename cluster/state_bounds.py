"""How large the state tables may become, in the unit of what is protected: the bytes that a snapshot holds of them.

A table is a function of its log, so all replicas have the same one: what one of them cannot save, none can. The leader
therefore judges an entry before it gets its place in the log, and counts everything that lies in the log before it,
committed or not. What makes a table smaller is always taken, also where it is too large already.

    raft0: brokers, topics, producer ids    raft0_bytes_max                        TablesFullError
    a partition of __consumer_offsets       groups_bytes_max, group_records_max    StateFullError
    a partition of __transaction_state      transactions_bytes_max,                StateFullError
                                            transactional_ids_max,
                                            transaction_partitions_max
    a partition's producers                 ProducerOptions.producers_max          the one silent longest is forgotten
"""

import logging
from dataclasses import dataclass
from typing import NamedTuple

from raft.errors import RetryableError
from storage.snapshot_file import STATE_BYTES_MAX

_logger = logging.getLogger("cluster")

_MIB = 1024 * 1024
# A refusal is worth another line once the table has grown or shrunk by this share of its bound.
_SAID_AGAIN = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class StateOptions:
    """Bounds of the state tables. A snapshot may have STATE_BYTES_MAX bytes.

    Attributes:
        raft0_bytes_max: Encoded bytes of raft0's tables, beyond which no topic is created, grows or is configured.
            Brokers still register, and what must leave them still moves: what is left up to STATE_BYTES_MAX is for
            that (`vital_commands`).
        groups_bytes_max: Encoded bytes of the groups and offsets in one partition of `__consumer_offsets`.
        group_records_max: How many groups and offsets these may be: each takes some 500 bytes of memory, however few
            bytes it is encoded in.
        transactions_bytes_max: Encoded bytes of the transactional ids in one partition of `__transaction_state`, beyond
            which none is added, and no partition to a transaction. What ends transactions may use a few bytes more.
        transactional_ids_max: How many ids these may be: each takes some 500 bytes of memory.
        transaction_partitions_max: How many partitions their transactions may have together, beyond which none is
            added: each takes some 160 bytes of memory and 4 encoded bytes.
    """

    raft0_bytes_max: int = 40 * _MIB
    groups_bytes_max: int = 40 * _MIB
    group_records_max: int = 250_000
    transactions_bytes_max: int = 40 * _MIB
    transactional_ids_max: int = 250_000
    transaction_partitions_max: int = 250_000

    def __post_init__(self) -> None:
        for name in ("raft0_bytes_max", "groups_bytes_max", "transactions_bytes_max"):
            if not 0 < getattr(self, name) <= STATE_BYTES_MAX:
                raise ValueError(f"{name} must be from 1 to {STATE_BYTES_MAX}: a snapshot holds no more")
        for name in ("group_records_max", "transactional_ids_max", "transaction_partitions_max"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0")


class StateFullError(RetryableError):
    """The entry would make a state table larger than it may be; nothing was written."""


class Fill(NamedTuple):
    """How full something is that has a bound, and how often the bound has refused a request since the start.

    Attributes:
        name: What has the bound, as an operator knows it.
        unit: What is counted.
        cure: What an operator may do, for whom it is full.
        is_retried: Whether brokers repeat by themselves what the bound has refused: no client is told.
    """

    name: str
    unit: str
    used: int
    maximum: int
    refused: int
    cure: str
    is_retried: bool = False

    @property
    def share(self) -> float:
        """What part of the bound is used."""
        return self.used / self.maximum


class StateBound:
    """One bound of one table.

    Attributes:
        refused: How many entries it has refused.
    """

    def __init__(self, name: str, unit: str, maximum: int, cure: str) -> None:
        self.name = name
        self.unit = unit
        self.maximum = maximum
        self.refused = 0
        self._cure = cure
        # What the table had when a refusal was logged last.
        self._said_at: int | None = None

    def judge(self, before: int, after: int, *, allowed: int | None = None) -> StateFullError | None:
        """Return why an entry is refused that makes the table this much larger; None: it is taken.

        Args:
            before: What the table has once everything in the log is committed.
            after: What it has with the entry.
            allowed: What this entry may use, if that is more than the bound.
        """
        maximum = self.maximum if allowed is None else allowed
        if after <= maximum or after <= before:
            return None
        self.refused += 1
        words = f"{self.name} may have {maximum} {self.unit}, has {before} and would have {after}"
        if self._said_at is None or abs(before - self._said_at) > _SAID_AGAIN * self.maximum:
            self._said_at = before
            _logger.warning("the request is refused, and so are others like it: %s; %s", words, self._cure)
        return StateFullError(words)

    def fill(self, used: int) -> Fill:
        """Return how full the table is."""
        return Fill(self.name, self.unit, used, self.maximum, self.refused, self._cure)
