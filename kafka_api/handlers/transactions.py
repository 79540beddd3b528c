"""DescribeTransactions (65) and ListTransactions (66): transactional ids at their coordinators."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from cluster.transactions.records import NO_TIME, StoredTransaction, TransactionState
from kafka_api.handlers.in_steps import in_steps
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.protocol.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka_api.request_context import RequestContext
from kafka_api.transactions.id_pattern import IdPattern, InvalidPatternError
from kafka_api.transactions.kept_transactions import KeptTransactions

# Source: the states of a transaction, KIP-664 and KIP-447.
_STATES = frozenset(state.shown for state in TransactionState)

# Partitions of one answer: some 10 MB in memory.
_PARTITIONS_MAX = 100_000
# Of one answer, as it is sent: ids may be 32 KiB long, and a broker may keep some millions of them.
_LISTED_BYTES_MAX = 32 * 1024 * 1024
# Lengths, producer id and state of an id that is listed, at most.
_ROW_BYTES = 40

_Matches = Callable[[str, StoredTransaction], Awaitable[bool]]
_Described = DescribeTransactionsResponse.TransactionState
_Listed = ListTransactionsResponse.TransactionState


async def handle_describe_transactions(
    context: RequestContext, _: int, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Describe each id that is kept here, once; where transactions are not used, each is unknown."""
    room = _PARTITIONS_MAX
    states = []
    async for name in in_steps(dict.fromkeys(request.transactional_ids)):
        states.append(await _describe(context, name, room))
        room -= sum(len(topic.partitions) for topic in states[-1].topics)
    return DescribeTransactionsResponse(transaction_states=states)


async def _describe(context: RequestContext, name: str, room: int) -> _Described:
    if not context.transactions.level:
        error = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if name else ErrorCode.INVALID_REQUEST
        return _Described(error_code=error, transactional_id=name, topics=[])
    found = await context.transactions.describe(name)
    if isinstance(found, ErrorCode):
        return _Described(error_code=found, transactional_id=name, topics=[])
    if len(found.partitions) > room:
        # The response has no place for words. One transaction has at most 10,000 partitions, so the first ids fit.
        return _Described(error_code=ErrorCode.INVALID_REQUEST, transactional_id=name, topics=[])
    # Sorting and encoding thousands of them takes milliseconds.
    await asyncio.sleep(0)
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(found.partitions):
        topics.setdefault(topic, []).append(number)
    return _Described(
        transactional_id=name,
        transaction_state=found.state.shown,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        topics=[
            DescribeTransactionsResponse.TopicData(topic=topic, partitions=numbers) for topic, numbers in topics.items()
        ],
    )


async def handle_list_transactions(
    context: RequestContext, _: int, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """List the ids that are kept here and match all filters; clients ask all brokers.

    INVALID_REQUEST if the ids are more than `_LISTED_BYTES_MAX`: a narrower filter asks for fewer.
    """
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in _STATES]
    answer = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=[])
    if not context.transactions.level:
        return answer
    try:
        matches = _filter(request, context.node.env.wall_clock.now_ms())
    except InvalidPatternError:
        answer.error_code = ErrorCode.INVALID_REGULAR_EXPRESSION
        return answer
    kept = context.transactions.all_here()
    if isinstance(kept, ErrorCode):
        answer.error_code = kept
        return answer
    room = _LISTED_BYTES_MAX
    for each in kept:
        error = await each.confirm()
        if error is not ErrorCode.NONE:
            return _unlisted(error, unknown)
        async for listed in _listed(each, matches):
            room -= _ROW_BYTES + len(listed.transactional_id.encode())
            if room < 0:
                # The response has no place for words.
                return _unlisted(ErrorCode.INVALID_REQUEST, unknown)
            answer.transaction_states.append(listed)
    return answer


def _unlisted(error: ErrorCode, unknown: list[str]) -> ListTransactionsResponse:
    return ListTransactionsResponse(error_code=error, unknown_state_filters=unknown, transaction_states=[])


def _filter(request: ListTransactionsRequest, now_ms: int) -> _Matches:
    """Return what says whether an id is asked for; filters that are empty let everything through.

    Raises:
        InvalidPatternError: The pattern of ids cannot be used.
    """
    pattern = IdPattern(request.transactional_id_pattern) if request.transactional_id_pattern else None
    states, producers = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    began_before = now_ms - request.duration_filter if request.duration_filter >= 0 else None

    async def matches(transactional_id: str, stored: StoredTransaction) -> bool:
        if states and stored.state.shown not in states:
            return False
        if producers and stored.producer_id not in producers:
            return False
        if began_before is not None and not NO_TIME < stored.started_ms < began_before:
            return False
        return pattern is None or await _match(pattern, transactional_id)

    return matches


async def _match(pattern: IdPattern, transactional_id: str) -> bool:
    for is_match in pattern.match(transactional_id):
        if is_match is not None:
            return is_match
        await asyncio.sleep(0)
    raise AssertionError("the last is the answer")


async def _listed(kept: KeptTransactions, matches: _Matches) -> AsyncIterator[_Listed]:
    async for transactional_id in in_steps(kept.transactional_ids()):
        stored = kept.view(transactional_id)
        if stored is not None and await matches(transactional_id, stored):
            yield _Listed(
                transactional_id=transactional_id,
                producer_id=stored.producer_id,
                transaction_state=stored.state.shown,
            )
