"""AddPartitionsToTxn (24): partitions that belong to a producer's transaction from now on.

Versions 0 to 3 are those of clients, and name one transaction. Version 4 and above name several, as brokers of Kafka
ask each other; `verify_only` asks which partitions belong. Kafka without an authorizer answers them to everybody.
"""

from collections.abc import Mapping, Sequence

from cluster.transactions.records import TopicPartition
from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from kafka_api.request_context import RequestContext
from kafka_api.transactions.transaction import PARTITIONS_MAX
from kafka_api.transactions.transaction_events import Answer, Identity

_FIRST_VERSION_OF_BROKERS = 4
# Before, what is not in the transaction is told by the code that clients knew first.
_FIRST_VERSION_WITH_ABORTABLE = 5

_Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
_Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
_TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
_Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult

_Errors = Mapping[TopicPartition, ErrorCode]


async def handle_add_partitions_to_txn(
    context: RequestContext, version: int, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add all partitions of a transaction, or none."""
    if version < _FIRST_VERSION_OF_BROKERS:
        one = _Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _topic_results(context, version, one))
    results = [
        _Result(transactional_id=each.transactional_id, topic_results=await _topic_results(context, version, each))
        async for each in in_steps(request.transactions)
    ]
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _topic_results(context: RequestContext, version: int, asked: _Transaction) -> list[_TopicResult]:
    partitions = [TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partitions]
    errors = await _errors(context, version, asked, partitions)
    return [_topic_result(topic, errors) for topic in asked.topics]


def _topic_result(topic: _Topic, errors: _Errors) -> _TopicResult:
    return _TopicResult(
        name=topic.name,
        results_by_partition=[
            _PartitionResult(partition_index=number, partition_error_code=errors[TopicPartition(topic.name, number)])
            for number in topic.partitions
        ],
    )


async def _errors(
    context: RequestContext, version: int, asked: _Transaction, partitions: Sequence[TopicPartition]
) -> _Errors:
    if len(partitions) > PARTITIONS_MAX:
        # Before anything is done for each of them; the machine refuses them, too.
        return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
    unknown = {each for each in partitions if not _exists(context, each)}
    if unknown:
        # As in Kafka: all of them, or none.
        failed, others = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        return {each: failed if each in unknown else others for each in partitions}
    producer, transactions = Identity(asked.producer_id, asked.producer_epoch), context.transactions
    if not asked.verify_only:
        added = await transactions.add_partitions(asked.transactional_id, version, producer, partitions)
        return dict.fromkeys(partitions, added.error)
    verified = await transactions.verify(asked.transactional_id, version, producer, partitions)
    if isinstance(verified, Answer):
        return dict.fromkeys(partitions, verified.error)
    return {each: _told(verified.errors[each], version) for each in partitions}


def _exists(context: RequestContext, partition: TopicPartition) -> bool:
    topic = context.node.controller.topics.get(partition.topic)
    return topic is not None and 0 <= partition.partition < len(topic.replicas)


def _told(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return error
