"""One rule for requests that only a leader can answer: who runs them, what is tried again, what is unknown."""

import asyncio

import msgspec
import pytest

from cluster.errors import NotControllerError
from cluster.forwarding import Forwarded, Forwarder, NoLeaderError, NoReplyError, RequestNotTakenError
from rpc.errors import RpcError
from rpc.framing import MAX_HEADER_BYTES
from rpc.methods import Method
from tests.unit.rpc.rpc_nodes import pair, run


class Words(msgspec.Struct, array_like=True, frozen=True):
    text: str
    payload_bytes: int = 0


ASK = Method(90, "ask", Words, Words, takes_payload=True)


class Receiver:
    """Answers at one node; each of `refusals` is the answer to one request, and then come echoes."""

    def __init__(self, *refusals: Exception) -> None:
        self.asked = 0
        self._refusals = list(refusals)

    async def answer(self, _, request: Words, payload: memoryview) -> Words:
        self.asked += 1
        if self._refusals:
            raise self._refusals.pop(0)
        return Words(request.text, len(payload))


async def run_here(request: Words) -> Words:
    return Words(f"here: {request.text}")


def request(text: str = "x") -> Forwarded[Words, Words]:
    return Forwarded(ASK, Words(text), run_here, bytearray(b"four"))


def unchecked(reply: Words) -> Words:
    return reply


async def ask_until(
    forwarder: Forwarder, find_leader, *, checked=unchecked, seconds=10.0, is_repeatable=False
) -> Words:
    deadline = asyncio.get_running_loop().time() + seconds
    return await forwarder.forward_until(find_leader, request(), checked, deadline, is_repeatable=is_repeatable)


def test_a_leader_runs_a_request_itself_and_any_other_broker_sends_it_with_its_payload():
    async def test():
        async with pair() as (one, two):
            receiver = Receiver()
            two.links.register_async(ASK, receiver.answer)
            forwarder = Forwarder(one.links, one.node_id)
            assert await forwarder.forward(one.node_id, request(), 5.0) == Words("here: x")
            assert receiver.asked == 0
            assert await forwarder.forward(two.node_id, request(), 5.0) == Words("x", 4)

    run(test())


def test_a_request_without_a_reply_names_the_leader_and_the_reason():
    async def test():
        async with pair() as (one, two):
            two.links.register_async(ASK, Receiver(RpcError("broken")).answer)
            with pytest.raises(NoReplyError, match=r"node 2: .*broken") as raised:
                await Forwarder(one.links, one.node_id).forward(two.node_id, request(), 5.0)
            assert raised.value.node_id == two.node_id

    run(test())


@pytest.mark.parametrize(("is_repeatable", "asked"), [(False, 1), (True, 2)])
def test_only_a_repeatable_request_is_sent_again_after_it_went_unanswered(is_repeatable: bool, asked: int):
    async def test():
        async with pair() as (one, two):
            receiver = Receiver(RpcError("broken"))
            two.links.register_async(ASK, receiver.answer)
            forwarder = Forwarder(one.links, one.node_id)
            if is_repeatable:
                assert (await ask_until(forwarder, lambda: two.node_id, is_repeatable=True)).text == "x"
            else:
                with pytest.raises(NoReplyError, match="broken"):
                    await ask_until(forwarder, lambda: two.node_id)
            assert receiver.asked == asked

    run(test())


def test_a_request_waits_for_a_leader_and_leaves_a_node_that_does_not_lead():
    async def test():
        async with pair() as (one, two):
            receiver = Receiver()
            two.links.register_async(ASK, receiver.answer)
            leaders = [None, two.node_id, one.node_id]

            def checked(reply: Words) -> Words:
                if not reply.text.startswith("here"):
                    raise NotControllerError("not I")
                return reply

            forwarder = Forwarder(one.links, one.node_id)
            assert (await ask_until(forwarder, lambda: leaders.pop(0), checked=checked)).text == "here: x"
            assert receiver.asked == 1
            assert leaders == []

    run(test())


def test_a_request_that_no_reader_takes_is_not_tried_again():
    async def test():
        async with pair() as (one, two):
            forwarder = Forwarder(one.links, one.node_id)
            large = request("x" * (MAX_HEADER_BYTES + 1))
            deadline = asyncio.get_running_loop().time() + 10
            with pytest.raises(RequestNotTakenError):
                await forwarder.forward_until(lambda: two.node_id, large, unchecked, deadline, is_repeatable=True)

    run(test())


def test_without_a_leader_a_request_ends_at_its_deadline_and_says_what_the_last_one_said():
    async def test():
        async with pair() as (one, two):
            forwarder = Forwarder(one.links, one.node_id)
            with pytest.raises(NoLeaderError, match="raft0 has no leader"):
                await ask_until(forwarder, lambda: None, seconds=0.01)
            two.links.register_async(ASK, Receiver(*[RpcError("broken")] * 1000).answer)
            with pytest.raises(NoLeaderError, match=r"node 2: .*broken"):
                await ask_until(forwarder, lambda: two.node_id, seconds=0.2, is_repeatable=True)

    run(test())
