"""A leadership transfer that fails says why, also where the other node or the error gives no words."""

import asyncio
from collections.abc import Iterator

import pytest

from model.ids import NodeId, Term
from raft.errors import TransferError
from raft.leadership_transfer import _check_accepted
from raft.messages import TimeoutNowReply


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def _refusal(answer: "asyncio.Future[TimeoutNowReply]") -> str:
    with pytest.raises(TransferError) as refused:
        _check_accepted(NodeId(2), answer)
    return str(refused.value)


def test_an_answer_that_does_not_come_is_told(loop: asyncio.AbstractEventLoop) -> None:
    answer: asyncio.Future[TimeoutNowReply] = loop.create_future()
    assert _refusal(answer) == "node 2 did not answer in time"
    answer.cancel()
    assert _refusal(answer) == "node 2 did not answer: cancelled"


@pytest.mark.parametrize(
    ("error", "why"),
    [(TimeoutError(), "no answer in time"), (ConnectionResetError(), "the connection was reset")],
    ids=["timeout", "reset"],
)
def test_an_error_without_words_is_told_by_its_class(
    loop: asyncio.AbstractEventLoop, error: Exception, why: str
) -> None:
    answer: asyncio.Future[TimeoutNowReply] = loop.create_future()
    answer.set_exception(error)
    assert _refusal(answer) == f"node 2 did not answer: {why}"


def test_a_refusal_without_words_is_told_as_one(loop: asyncio.AbstractEventLoop) -> None:
    answer: asyncio.Future[TimeoutNowReply] = loop.create_future()
    answer.set_result(TimeoutNowReply(Term(1), False, ""))
    assert _refusal(answer) == "node 2 refuses and gives no reason"
