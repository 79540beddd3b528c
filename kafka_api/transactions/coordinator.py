"""The transaction coordinator of one broker: what it says to requests about transactional ids (RFC 0021, section 7).

It begins to work where the cluster uses `transaction.version` at level 1 or above. Before that it does nothing.
"""

import asyncio
import logging
from collections.abc import Sequence

from cluster.groups.offsets_topic import OFFSETS_TOPIC, offsets_partition
from cluster.node import Node
from cluster.partition import Partition
from cluster.transactions.admission import AddToTransactionReply, AddToTransactionRequest, Admission
from cluster.transactions.level import transactions_level
from cluster.transactions.records import StoredTransaction, TopicPartition
from cluster.transactions.transactions_log_state import TransactionsLogState
from cluster.transactions.transactions_topic import TRANSACTIONS_TOPIC, TRANSACTIONS_TOPIC_CONFIGS
from kafka_api.coordinators.office import CoordinatorOffice
from kafka_api.options import OptionsInForce
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.transactions.certain_level import CertainLevel
from kafka_api.transactions.coordinator_means import CoordinatorMeans
from kafka_api.transactions.held_transaction import Step
from kafka_api.transactions.kept_transactions import KeptTransactions
from kafka_api.transactions.options import TransactionOptions
from kafka_api.transactions.transaction_counts import TransactionCounts
from kafka_api.transactions.transaction_events import Answer, Identity, Verified
from model.features import TRANSACTION_VERSION
from model.ids import Index
from runtime.gate import Gate

_logger = logging.getLogger("kafka.transactions")

# Of AddPartitionsToTxn, as of brokers that add for Produce 12 and TxnOffsetCommit 5.
_BROKERS_VERSION = 5

_ADMISSIONS = {
    ErrorCode.NONE: Admission.YES,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Admission.AWAY,
    ErrorCode.NOT_COORDINATOR: Admission.AWAY,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Admission.BUSY,
    ErrorCode.CONCURRENT_TRANSACTIONS: Admission.BUSY,
    ErrorCode.PRODUCER_FENCED: Admission.OLD_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Admission.UNKNOWN_ID,
}


class TransactionCoordinator(CoordinatorOffice[KeptTransactions]):
    """See the module. Requests are answered with a code where this broker is not the one to ask."""

    def __init__(self, node: Node, in_force: OptionsInForce) -> None:
        self._in_force = in_force
        gate, partitions = Gate("transaction coordinator"), self.options.topic_partitions
        super().__init__(node, TRANSACTIONS_TOPIC, TRANSACTIONS_TOPIC_CONFIGS, partitions, gate, _logger)
        self._means = CoordinatorMeans(node, lambda: self.options, gate)
        self._is_begun = False
        offered = node.options.features.get(TRANSACTION_VERSION)
        is_offered = offered is not None and offered.highest > 0
        self._certain_level = CertainLevel(lambda: self.level, node.admin.catch_up, is_offered=is_offered)

    @property
    def options(self) -> TransactionOptions:
        """Those in force now."""
        return self._in_force.current.transactions

    @property
    def counts(self) -> TransactionCounts:
        """What it has done since the broker's start."""
        return self._means.counts

    @property
    def id_count(self) -> int:
        """How many transactional ids are kept here and can be asked for."""
        return sum(kept.id_count for kept in self._active.values() if kept.is_loaded)

    @property
    def level(self) -> int:
        """Of `transaction.version`, as this broker has applied it; 0: transactions are refused, see `certain_level`."""
        return transactions_level(self._node)

    async def certain_level(self) -> int | None:
        """Return the level as of now, for who is refused at level 0; None: nobody says at the moment, ask again."""
        return await self._certain_level.ask()

    def start(self) -> None:
        """Begin as soon as the cluster uses transactions. The node has started."""
        self._node.controller.features.add_listener(self._on_features)
        self._on_features()

    def _on_features(self) -> None:
        if self._is_begun or self._gate.is_closed or not self.level:
            return
        self._is_begun = True
        super().start()
        self._node.admissions.serve(self.find_node, self.answer_leader)
        self._gate.spawn(self._look_for_timeouts(), name="time out")
        self._gate.spawn(self._look_for_unused(), name="expire ids")

    @property
    def _first_leader_wait(self) -> float:
        return self.options.first_leader_wait_ms / 1000

    def _new_kept(self, partition: Partition) -> KeptTransactions | None:
        if not isinstance(partition.log_state, TransactionsLogState):
            return None
        return KeptTransactions(partition, partition.log_state, self._means)

    async def _look_for_timeouts(self) -> None:
        while True:
            await asyncio.sleep(self.options.timeout_check_interval_ms / 1000)
            for kept in list(self._active.values()):
                kept.look()

    async def _look_for_unused(self) -> None:
        while True:
            await asyncio.sleep(self.options.expiration_check_interval_ms / 1000)
            for kept in list(self._active.values()):
                if kept.is_loaded:
                    await kept.expire()

    # -- requests of clients ------------------------------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str, version: int, timeout_ms: int, known: Identity | None
    ) -> Answer:
        """Make a producer the only one of an id; see `Transaction.init_producer_id`."""
        if not transactional_id:
            return Answer(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self.options.max_timeout_ms:
            # First, as in Kafka: whoever keeps the id would say the same.
            return Answer(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return await self._answer(
            transactional_id,
            lambda machine, now_ms, fresh_id: machine.init_producer_id(
                now_ms, version, timeout_ms, known, self.level, fresh_id
            ),
        )

    async def add_partitions(
        self, transactional_id: str, version: int, producer: Identity, partitions: Sequence[TopicPartition]
    ) -> Answer:
        """Let partitions belong to a producer's transaction; see `Transaction.add_partitions`."""
        return await self._answer(
            transactional_id,
            lambda machine, now_ms, _: machine.add_partitions(now_ms, version, producer, partitions),
        )

    async def verify(
        self, transactional_id: str, version: int, producer: Identity, partitions: Sequence[TopicPartition]
    ) -> Answer | Verified:
        """Say which partitions belong to a producer's transaction."""
        return await self._ask(transactional_id, lambda machine, _, __: machine.verify(version, producer, partitions))

    async def add_offsets(self, transactional_id: str, version: int, producer: Identity, group_id: str) -> Answer:
        """Let the partition that keeps a group belong to a producer's transaction."""
        topic = self._node.controller.topics.get(OFFSETS_TOPIC)
        if topic is None:
            # It is being created, and clients ask again.
            return Answer(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        partition = TopicPartition(OFFSETS_TOPIC, offsets_partition(group_id, len(topic.replicas)))
        return await self._answer(
            transactional_id, lambda machine, now_ms, _: machine.add_offsets(now_ms, version, producer, partition)
        )

    async def end_transaction(self, transactional_id: str, version: int, producer: Identity, is_commit: bool) -> Answer:
        """End a producer's transaction; see `Transaction.end`."""
        return await self._answer(
            transactional_id,
            lambda machine, now_ms, fresh_id: machine.end(now_ms, version, producer, is_commit, fresh_id),
        )

    async def _answer(self, transactional_id: str, step: Step) -> Answer:
        answer = await self._ask(transactional_id, step)
        assert isinstance(answer, Answer)
        return answer

    async def _ask(self, transactional_id: str, step: Step) -> Answer | Verified:
        if not transactional_id:
            return Answer(ErrorCode.INVALID_REQUEST)
        kept = self.locate(transactional_id)
        return Answer(kept) if isinstance(kept, ErrorCode) else await kept.ask(transactional_id, step)

    # -- requests of leaders ------------------------------------------------------------------------------------

    async def answer_leader(self, request: AddToTransactionRequest) -> AddToTransactionReply:
        """Answer the leader of partitions that a batch would open (method 51)."""
        self._means.node.markers.expect_tables(Index(request.tables_index))
        producer = Identity(request.producer_id, request.epoch)
        partitions = [TopicPartition(*name) for name in request.partitions]
        said: Answer | Verified
        if request.is_add:
            said = await self.add_partitions(request.transactional_id, _BROKERS_VERSION, producer, partitions)
        else:
            said = await self.verify(request.transactional_id, _BROKERS_VERSION, producer, partitions)
        if isinstance(said, Verified):
            return AddToTransactionReply([_admission(said.errors[each]) for each in partitions])
        return AddToTransactionReply([_admission(said.error)] * len(partitions))

    # -- looking ------------------------------------------------------------------------------------------------

    async def describe(self, transactional_id: str) -> StoredTransaction | ErrorCode:
        """Return the state of an id, as a majority confirms it."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        kept = self.locate(transactional_id)
        if isinstance(kept, ErrorCode):
            return kept
        found = kept.view(transactional_id)
        error = await kept.confirm()
        if error is not ErrorCode.NONE:
            return error
        return found or ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def _admission(error: ErrorCode) -> Admission:
    # What is refused for its size is in no transaction.
    return _ADMISSIONS.get(error, Admission.NOT_IN_TRANSACTION)
