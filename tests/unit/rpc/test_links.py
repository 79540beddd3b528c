"""Requests, replies, deadlines and the loss of links between good nodes."""

import asyncio
import logging
import socket

import msgspec
import pytest
from rpc_nodes import EARLY, ECHO, HOLD, HOST, URGENT, Ask, Node, Stranger, Told, identity, nodes, pair, run

from model.ids import DirectoryId, NodeId
from rpc.errors import (
    ErrorCode,
    FrameTooLargeError,
    LinkBusyError,
    LinkDownError,
    MalformedBodyError,
    NotFoundedError,
    RemoteError,
    RpcError,
    RpcTimeoutError,
)
from rpc.handshake import FORMAT_VERSION, FORMAT_WITHOUT_EPOCHS, Role
from rpc.identity import Address, KnownReplica
from rpc.methods import Method
from rpc.options import LinkOptions


class Wordy(msgspec.Struct, array_like=True):
    number: str


class TeapotError(RpcError):
    code = 418


def test_requests_are_answered_in_both_directions() -> None:
    async def test() -> None:
        async with nodes(identity(1), identity(2)) as (one, two):
            one.dial(one, two)
            two.dial(one, two)
            assert await one.ups.get() == 2
            assert await two.ups.get() == 1
            assert await one.ask(two, 5, [b"ab", memoryview(b"c"), bytearray(2)]) == Told(5, 5)
            assert await two.ask(one, 6) == Told(6, 0)
            assert one.links.replica_of(NodeId(2)) == identity(2).replica
            assert one.links.replica_of(NodeId(3)) is None
            assert not one.links.is_up(NodeId(1))

    run(test())


def test_a_node_that_has_dialled_answers_only_while_it_is_heard() -> None:
    async def test() -> None:
        async with nodes(identity(1), identity(2)) as (one, two):
            two.dial(one, two)
            assert await two.ups.get() == 1
            assert await two.ask(one, 6) == Told(6, 0)
            assert one.links.heard_replica(NodeId(2), 60.0) == identity(2).replica
            # What came is older than that.
            assert one.links.heard_replica(NodeId(2), -1.0) is None
            assert two.links.heard_replica(NodeId(1), -1.0) == identity(1).replica
            assert one.links.heard_replica(NodeId(3), 60.0) is None

    run(test())


def test_frames_go_out_in_the_order_of_the_calls_and_replies_find_their_requests() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            sizes = [i * 7919 % 90_000 if i % 10 == 0 else i for i in range(500)]
            futures = [
                one.links.send(NodeId(2), URGENT if i % 3 else ECHO, Ask(i), [bytes(sizes[i])], timeout=10)
                for i in range(500)
            ]
            assert await asyncio.gather(*futures) == [Told(i, sizes[i]) for i in range(500)]
            for urgent in (False, True):
                of_one_kind = [i for i in range(500) if bool(i % 3) is urgent]
                assert [i for i in two.seen if bool(i % 3) is urgent] == of_one_kind

    run(test())


def test_an_urgent_request_passes_a_large_one_that_is_being_sent() -> None:
    async def test() -> None:
        async with pair(LinkOptions(send_buffer_bytes=65 << 20)) as (one, two):
            large = one.links.send(NodeId(2), ECHO, Ask(1), [bytes(64 << 20)], timeout=20)
            behind = one.links.send(NodeId(2), ECHO, Ask(2), timeout=20)
            assert await one.ask(two, 3, method=URGENT) == Told(3, 0)
            assert not large.done()
            assert await large == Told(1, 64 << 20)
            assert await behind == Told(2, 0)
            assert two.seen == [3, 1, 2]

    run(test())


def test_what_waits_is_sent_before_a_link_is_closed_in_good_order() -> None:
    async def test() -> None:
        async with pair(LinkOptions(close_timeout=10)) as (one, two):
            one.links.send(NodeId(2), ECHO, Ask(1), [bytes(16 << 20)], timeout=20)
            two_replaced = {NodeId(2): KnownReplica(DirectoryId("another"))}
            one.links.set_known_replicas(two_replaced)
            assert await one.resets.get() == 2
            await two.resets.get()
            assert two.seen == [1]

    run(test())


def test_a_payload_view_outlives_its_frame() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            kept: list[memoryview] = []
            keep = Method(9, "keep", Ask, Told, takes_payload=True)
            two.links.register(keep, lambda peer, request, payload: kept.append(payload) or Told(0, 0))
            sent = [bytes([i]) * size for i, size in enumerate((10, 70_000, 3_000_000, 5))]
            for payload in sent:
                await one.ask(two, 0, [payload], keep)
            assert [bytes(view) for view in kept] == sent

    run(test())


def test_replies_may_come_in_another_order() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            futures = [one.links.send(NodeId(2), HOLD, Ask(i), timeout=10) for i in range(3)]
            held = [await two.held.get() for _ in futures]
            for i in (2, 0, 1):
                held[i].set_result(Told(i, 0))
                assert await futures[i] == Told(i, 0)

    run(test())


def test_errors_of_handlers_become_error_replies(caplog) -> None:
    async def raising(peer, request, payload) -> Told:
        raise TeapotError("async")

    def raising_now(peer, request, payload) -> Told:
        raise TeapotError("x" * 5000)

    async def adding(peer, request, payload) -> Told:
        return Told(request.number + 1, peer.replica.node_id)

    async def test() -> None:
        later, now, added, unknown = (Method(i, "m", Ask, Told) for i in range(10, 14))
        async with pair() as (one, two):
            two.links.register_async(later, raising)
            two.links.register(now, raising_now)
            two.links.register_async(added, adding)
            assert await one.ask(two, 1, method=added) == Told(2, 1)

            async def code_of(method, body: Ask) -> int:
                with pytest.raises(RemoteError) as caught:
                    await one.links.send(NodeId(2), method, body, timeout=10)
                assert len(caught.value.message) <= 1000
                return caught.value.remote_code

            assert await code_of(later, Ask(1)) == await code_of(now, Ask(1)) == 418
            assert await code_of(unknown, Ask(1)) == ErrorCode.UNKNOWN_METHOD
            assert await code_of(Method(1, "echo", Ask, Told), Ask("x")) == ErrorCode.MALFORMED_BODY
            for outcome, code in ((ZeroDivisionError(), ErrorCode.INTERNAL), (None, ErrorCode.CANCELLED)):
                future = one.links.send(NodeId(2), HOLD, Ask(1), timeout=10)
                held = await two.held.get()
                held.cancel() if outcome is None else held.set_exception(outcome)
                with pytest.raises(RemoteError) as caught:
                    await future
                assert caught.value.remote_code == code
            with pytest.raises(MalformedBodyError):
                await one.links.send(NodeId(2), Method(1, "echo", Ask, Wordy), Ask(1), timeout=10)

    run(test())


def test_a_request_without_a_reply_times_out_and_a_late_reply_is_dropped() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            loop = asyncio.get_running_loop()
            began = loop.time()
            with pytest.raises(RpcTimeoutError):
                await one.links.send(NodeId(2), HOLD, Ask(1), timeout=0.05)
            assert 0.05 <= loop.time() - began < 2
            (await two.held.get()).set_result(Told(1, 1))
            assert await one.ask(two, 2) == Told(2, 0)
            assert one.resets.empty()

    run(test())


def test_a_lost_link_fails_all_in_flight_tells_once_and_comes_back() -> None:
    async def test() -> None:
        async with nodes(identity(1), identity(2)) as (one, two):
            one.dial(two)
            await one.ups.get()
            futures = [one.links.send(NodeId(2), HOLD, Ask(i), timeout=10) for i in range(5)]
            for _ in futures:
                await two.held.get()
            await two.links.close()
            for future in futures:
                with pytest.raises(LinkDownError):
                    await future
            assert await one.resets.get() == 2
            assert not one.links.is_up(NodeId(2))
            assert one.links.replica_of(NodeId(2)) is None
            with pytest.raises(LinkDownError):
                await one.ask(two, 1)
            again = Node(identity(2), LinkOptions())
            await again.links.start(HOST, two.port)
            assert await one.ups.get() == 2
            assert await one.ask(again, 7) == Told(7, 0)
            assert one.resets.empty()
            await again.links.close()

    run(test())


def test_the_accepting_side_hears_of_a_lost_link_too() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            await one.ask(two, 1)
            await one.links.close()
            assert await two.resets.get() == 1
            assert two.resets.empty()
            assert one.resets.empty(), "closing is not losing"

    run(test())


def test_failures_that_nobody_looks_at_are_not_logged(caplog) -> None:
    async def test() -> None:
        async with pair() as (one, two):
            one.links.send(NodeId(2), HOLD, Ask(1), timeout=10)
            one.links.send(NodeId(7), HOLD, Ask(1), timeout=10)
            await two.held.get()
            one.links.set_peers({})
            assert await one.resets.get() == 2

    with caplog.at_level(logging.DEBUG):
        run(test())
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_peer_that_moved_is_dialled_at_its_new_address() -> None:
    async def test() -> None:
        async with nodes(identity(1), identity(2), identity(2)) as (one, old, new):
            one.dial(old)
            await one.ups.get()
            one.dial(new)
            await one.ups.get()
            await one.ask(new, 4)
            assert (old.seen, new.seen) == ([], [4])

    run(test())


def test_too_many_unsent_bytes_refuse_all_but_urgent_requests() -> None:
    async def test() -> None:
        options = LinkOptions(send_buffer_bytes=100_000)
        async with nodes(identity(1), options=options) as (one,), deaf_peer(one):
            big = bytes(8 << 20)
            accepted = one.links.send(NodeId(2), ECHO, Ask(1), [big], timeout=20)
            assert not accepted.done()
            with pytest.raises(LinkBusyError, match="unsent"):
                await one.links.send(NodeId(2), ECHO, Ask(2), timeout=20)
            assert not one.links.send(NodeId(2), URGENT, Ask(3), timeout=20).done()

    run(test())


def test_a_request_that_alone_is_more_than_the_bound_finds_room_beside_small_ones() -> None:
    async def test() -> None:
        options = LinkOptions(send_buffer_bytes=100_000)
        async with nodes(identity(1), options=options) as (one,), deaf_peer(one):
            [link] = one.links.outgoing()
            # Until the kernels hold no more.
            while not link.unsent_bytes:
                assert not one.links.send(NodeId(2), ECHO, Ask(1), [bytes(10_000)], timeout=20).done()
            assert one.links.has_room(NodeId(2), 1 << 30)
            assert not one.links.send(NodeId(2), ECHO, Ask(2), [bytes(8 << 20)], timeout=20).done()
            assert not one.links.has_room(NodeId(2), 1)
            assert not one.links.has_room(NodeId(3), 1), "nobody"
            with pytest.raises(LinkBusyError):
                await one.links.send(NodeId(2), ECHO, Ask(3), [b"x"], timeout=20)
            assert link.refused_requests == 1

    run(test())


def test_too_many_unanswered_requests_are_refused_and_urgent_ones_have_a_reserve() -> None:
    async def test() -> None:
        async with pair(LinkOptions(max_in_flight=8)) as (one, two):
            for i in range(8):
                one.links.send(NodeId(2), HOLD, Ask(i), timeout=10)
            with pytest.raises(LinkBusyError, match="unanswered"):
                await one.ask(two, 9)
            assert await one.ask(two, 9, method=URGENT) == Told(9, 0)

    run(test())


def test_a_frame_too_large_is_refused_and_the_link_lives() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            with pytest.raises(FrameTooLargeError):
                await one.ask(two, 1, [bytes(161 << 20)])
            assert await one.ask(two, 2) == Told(2, 0)

    run(test())


def test_a_silent_link_is_closed_and_dialled_again() -> None:
    async def test() -> None:
        options = LinkOptions(silence_limit=0.3, sweep_interval=0.02)
        async with nodes(identity(1), options=options) as (one,), deaf_peer(one):
            with pytest.raises(RpcTimeoutError):
                await one.links.send(NodeId(2), ECHO, Ask(1), timeout=0.05)
            assert one.links.is_up(NodeId(2)), "one slow answer closes nothing"
            assert await one.resets.get() == 2
            assert await one.ups.get() == 2

    run(test())


def test_before_founding_only_marked_methods_may_be_called() -> None:
    async def test() -> None:
        async with nodes(identity(1, cluster=None), identity(2)) as (one, two):
            one.dial(two)
            two.dial(one)
            await one.ups.get()
            await two.ups.get()
            for a, b in ((one, two), (two, one)):
                with pytest.raises(NotFoundedError):
                    await a.ask(b, 1)
                assert await a.ask(b, 2, method=EARLY) == Told(2, 0)
            one.links.set_cluster_id("cluster")
            await one.ups.get()
            await two.ups.get()
            assert await one.ask(two, 3) == await two.ask(one, 3) == Told(3, 0)

    run(test())


def test_a_link_of_before_founding_whose_end_was_lost_on_the_way_is_made_again() -> None:
    async def test() -> None:
        async with nodes(identity(1), identity(2, cluster=None)) as (one, two):
            one.dial(two)
            await one.ups.get()
            # It closes the links of before; nobody hears of that.
            two.links._reconnect_if = lambda is_wrong: None
            two.links.set_cluster_id("cluster")
            with pytest.raises(NotFoundedError):
                await one.ask(two, 1)
            assert one.links.is_up(NodeId(2)), "the peer was heard just now"
            one.links._outgoing[NodeId(2)]._connection.last_received -= LinkOptions().silence_limit
            with pytest.raises(NotFoundedError):
                await one.ask(two, 2)
            await one.ups.get()
            assert await one.ask(two, 3) == Told(3, 0)

    run(test())


def test_a_handler_may_set_the_cluster_id_and_still_answer() -> None:
    async def test() -> None:
        async with nodes(identity(1, cluster=None), identity(2, cluster=None)) as (one, two):
            found = Method(20, "found", Ask, Told, before_founding=True)

            def founding(peer, request, payload) -> Told:
                two.links.set_cluster_id("cluster")
                return Told(1, 1)

            two.links.register(found, founding)
            one.dial(two)
            await one.ups.get()
            assert await one.ask(two, 1, method=found) == Told(1, 1)
            one.links.set_cluster_id("cluster")
            founded = False
            while not founded:
                await one.ups.get()
                try:
                    founded = await one.ask(two, 3) == Told(3, 0)
                except (NotFoundedError, LinkDownError):
                    continue

    run(test())


def test_a_directory_learned_later_closes_a_link_with_another_one() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            one.links.set_known_replicas({NodeId(2): KnownReplica(DirectoryId("dir-2"))})
            assert await one.ask(two, 1) == Told(1, 0)
            one.links.set_known_replicas({NodeId(2): KnownReplica(DirectoryId("another"))})
            assert await one.resets.get() == 2
            assert not one.links.is_up(NodeId(2))

    run(test())


def test_a_taken_port_is_a_clear_error() -> None:
    async def test() -> None:
        async with nodes(identity(1)) as (one,):
            other = Node(identity(2), LinkOptions())
            with pytest.raises(OSError, match=f"cannot listen for node links on {HOST}:{one.port}"):
                await other.links.start(HOST, one.port)
            await other.links.close()

    run(test())


def test_a_peer_that_is_not_there_yet_is_dialled_until_it_is() -> None:
    async def test() -> None:
        with socket.create_server((HOST, 0)) as placeholder:
            port = placeholder.getsockname()[1]
        async with nodes(identity(1)) as (one,):
            one.links.set_peers({NodeId(2): Address(HOST, port)})
            with pytest.raises(LinkDownError):
                await one.links.send(NodeId(2), ECHO, Ask(1), timeout=1)
            two = Node(identity(2), LinkOptions())
            await two.links.start(HOST, port)
            assert await one.ups.get() == 2
            await two.links.close()

    run(test())


class deaf_peer:  # noqa: N801
    """Node 2, which shakes hands and then reads nothing."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._strangers: list[Stranger] = []

    async def __aenter__(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        port = self._server.sockets[0].getsockname()[1]
        self._node.links.set_peers({NodeId(2): Address(HOST, port)})
        assert await self._node.ups.get() == 2

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._node.links.set_peers({})
        for stranger in self._strangers:
            await stranger.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stranger = Stranger(reader, writer)
        self._strangers.append(stranger)
        await stranger.shake(Role.ACCEPTOR, identity(2))


def test_the_end_of_a_stranger_that_asks_to_join_is_no_end_of_the_node_whose_id_it_names() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            for node in (one, two):
                node.links.require_epochs()
            await one.ups.get()
            while not one.resets.empty():
                one.resets.get_nowait()
            stranger = await Stranger.dial(one.port)
            who = identity(2, cluster=None, directory="new")
            await stranger.shake(Role.DIALER, who, dialled=1, link_format=FORMAT_VERSION)
            await stranger.close()
            while not one.links.is_up(NodeId(2)):
                await one.ups.get()
            assert await one.ask(two, 1) == Told(1, 0)
            assert one.resets.empty()

    run(test())


def _formats(*linked: Node) -> list[int | None]:
    links = [link for node in linked for link in node.links.outgoing()]
    return [None if link.peer is None else link.peer.link_format for link in links]


def test_a_peer_in_no_cluster_is_linked_anew_where_an_older_format_is_taken_no_more() -> None:
    async def test() -> None:
        strangers = identity(1, cluster=None), identity(2, cluster=None)
        async with nodes(*strangers, options=LinkOptions(refused_backoff=0.01)) as (one, two):
            for node in (one, two):
                node.dial(one, two)
            while _formats(one, two) != [FORMAT_WITHOUT_EPOCHS] * 2:
                await asyncio.sleep(0.005)
            one.links.require_epochs()
            while _formats(one, two) != [FORMAT_VERSION] * 2:
                await asyncio.sleep(0.005)
            assert await two.ask(one, 1, method=EARLY) == Told(1, 0)

    run(test())
