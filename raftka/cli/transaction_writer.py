"""Writes records in transactions: readers with read_committed see all records of one, or none (KIP-98)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raftka.cli.exit_codes import CommandError, GivenUpError
from raftka.cli.record_input import InputRecord
from raftka.cli.record_writer import RecordWriter, WriteRequest
from raftka.kafka import client as kafka_client
from raftka.kafka import transactions

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

# After each step somebody looks whether the wait is worth it; librdkafka goes on where it was.
_STEP_SECONDS = 0.5
# Names of librdkafka's errors that mean: a newer producer has this transactional id, or the coordinator has ended the
# transaction.
_FENCED = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionRequest:
    """How records are put into transactions.

    Attributes:
        transactional_id: Of the producer.
        records_max: So many records are a transaction; None: all are one.
        timeout: Seconds until brokers abort a transaction that has not ended.
    """

    transactional_id: str
    records_max: int | None
    timeout: float


class TransactionWriter(RecordWriter):
    """Writes the records of one command in transactions, one after the other.

    It begins as the producer of its transactional id; an older producer of this id is fenced by that. A record that
    fails aborts its transaction.

    Args:
        request: Where and how; acks is all.
        transaction: How records are put into transactions.
        unit: What the records are called at the end, as in "3 of the 4 lines".
        on_acknowledged: Called with each record that brokers have, in the order of their acknowledgements. It counts
            once its transaction is committed.
        on_ended: Called when a transaction has ended, with whether it is committed.
        before_words: Called before something is said on stderr.
        is_urgent: Asked while it waits; True: nobody wants to wait any longer.

    Raises:
        CommandError: The brokers do not let this producer begin.
        GivenUpError: Nobody wants to wait any longer.
        NoQuorumError: Too few brokers answer.
    """

    def __init__(
        self,
        request: WriteRequest,
        transaction: TransactionRequest,
        unit: str,
        on_acknowledged: Callable[["Message"], None],
        on_ended: Callable[[bool], None],
        before_words: Callable[[], None],
        is_urgent: Callable[[], bool] = lambda: False,
    ) -> None:
        options = {
            "transactional_id": transaction.transactional_id,
            "transaction_timeout_ms": int(transaction.timeout * 1000),
            "logger": kafka_client.silent_logger(),
        }
        # librdkafka lets no record wait longer than its transaction may take.
        record_seconds = min(request.timeout, transaction.timeout)
        of_records = replace(request, timeout=record_seconds, options={**request.options, **options})
        super().__init__(of_records, unit, on_acknowledged, before_words, is_urgent)
        self._transaction = transaction
        self._answer_seconds = request.timeout
        self._on_ended = on_ended
        self._committed = 0
        # Records of the transaction that is open; None: none is.
        self._in_transaction: int | None = None
        self._is_commit_asked = False
        self._ask("begin as the only producer", self._producer.init_transactions)

    @property
    def written(self) -> int:
        """Records whose transactions are committed."""
        return self._committed

    def write(self, record: InputRecord) -> None:
        """Send one record, in a transaction of its own if it is the first one; commit after the last one.

        Raises:
            CommandError: An earlier record has failed, or this one cannot be sent, or the transaction not be committed.
            GivenUpError: Nobody wants to wait any longer.
        """
        with self._fatal_errors():
            if self._in_transaction is None:
                self._producer.begin_transaction()
                self._in_transaction = 0
            super().write(record)
        self._in_transaction += 1
        if self._in_transaction == self._transaction.records_max:
            self._commit()

    def finish(self) -> None:
        """Commit what is open.

        Raises:
            CommandError: A record has failed, so the transaction is aborted; or it cannot be committed.
            GivenUpError: Nobody wants to wait any longer.
            NoQuorumError: Too few brokers answer.
        """
        if self._in_transaction is not None:
            self._commit()

    def cut_short(self) -> str:
        """Abort what is open, for its input has ended before its time. Return words for that; empty: nothing was.

        Raises:
            CommandError: It cannot be aborted.
            GivenUpError: Nobody wants to wait any longer.
            NoQuorumError: Too few brokers answer.
        """
        return "" if self._in_transaction is None else self._abort()

    def _settle(self) -> None:
        with self._fatal_errors():
            super()._settle()

    def _commit(self) -> None:
        self._settle()
        assert self._in_transaction is not None
        self._is_commit_asked = True
        self._ask("commit", self._producer.commit_transaction)
        self._is_commit_asked = False
        self._committed += self._in_transaction
        self._in_transaction = None
        self._on_ended(True)

    def _abort(self) -> str:
        # A record that fails because of this is no news.
        self._error = self._error or "aborted"
        self._ask("abort", self._producer.abort_transaction)
        self._in_transaction = None
        self._on_ended(False)
        return f"the transaction is aborted; {self._count()} are committed"

    def _count(self) -> str:
        return f"{self._committed} of the {self._sent} {self._unit} that were sent"

    def _unknown_outcome(self) -> str:
        if self._in_transaction is None:
            return f"{self._count()} are committed"
        if self._is_commit_asked:
            identity = self._transaction.transactional_id
            return (
                f"{self._count()} are committed before; `raftka txn describe {identity}` tells what becomes of the rest"
            )
        return (
            f"{self._count()} are committed; brokers abort the transaction that is open"
            f" {self._transaction.timeout:g} s after its beginning"
        )

    def _failed_outcome(self) -> str:
        return self._abort()

    @contextmanager
    def _fatal_errors(self) -> Iterator[None]:
        """Turn an error after which this producer can do nothing into a CommandError."""
        from confluent_kafka import KafkaException

        try:
            with kafka_client.fatal_errors():
                yield
        except KafkaException as error:
            raise CommandError(f"{self._words(error.args[0])}; {self._count()} are committed") from None

    def _ask(self, what: str, call: Callable[[float], None]) -> None:
        """Let librdkafka do something that it can go on with after a time-out."""
        from confluent_kafka import KafkaException

        self._idle.restart()
        deadline = time.monotonic() + self._answer_seconds
        while True:
            try:
                with kafka_client.fatal_errors():
                    call(_STEP_SECONDS)
                return
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
            if error.txn_requires_abort() and call != self._producer.abort_transaction:
                raise CommandError(f"cannot {what}: {self._words(error)}; {self._abort()}")
            if not error.retriable():
                known = self._unknown_outcome() if self._is_commit_asked else f"{self._count()} are committed"
                raise CommandError(f"cannot {what}: {self._words(error)}; {known}")
            if self._is_urgent():
                raise GivenUpError(f"interrupted: {self._unknown_outcome()}")
            self._warn_if_idle()
            if time.monotonic() >= deadline:
                raise CommandError(f"cannot {what}: no answer in {self._answer_seconds:g} s; {self._unknown_outcome()}")

    def _why(self, error: "KafkaError", message: "Message") -> str:
        return self._words(error) if error.name() in _FENCED else super()._why(error, message)

    def _words(self, error: "KafkaError") -> str:
        transaction = self._transaction
        if error.name() in _FENCED:
            return (
                f"another producer has begun as {transaction.transactional_id!r}, or the transaction took longer than"
                f" {transaction.timeout:g} s (--transaction-timeout)"
            )
        if error.name() == "INVALID_TRANSACTION_TIMEOUT":
            return (
                f"the brokers let no transaction take {transaction.timeout:g} s: lower --transaction-timeout, or raise"
                " transaction.max.timeout.ms"
            )
        if error.name() in ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "_UNSUPPORTED_FEATURE"):
            cluster = kafka_client.read_cluster(self._request.brokers)
            return transactions.no_transactions(cluster) or kafka_client.error_text(error)
        return kafka_client.error_text(error)
