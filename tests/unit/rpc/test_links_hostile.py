"""Strangers, damaged streams and wrong nodes never hurt the links of good ones."""

import asyncio
import itertools
import logging
import socket
from dataclasses import replace

import pytest
from rpc_nodes import EARLY, ECHO, HOST, SECRET, Ask, Stranger, Told, identity, nodes, pair, run

from model.ids import DirectoryId, NodeId
from rpc.codec import HELLO, PROOF, REFUSED, REPLY, REQUEST, encode_header
from rpc.damage_log import DamageLog
from rpc.errors import HandshakeRefusedError, LinkDownError, MalformedFrameError, RefusalCode, RemoteError
from rpc.framing import encode_frame
from rpc.handshake import FORMAT_VERSION, FORMAT_WITHOUT_EPOCHS, Role
from rpc.identity import Address, KnownReplica
from rpc.options import LinkOptions
from tests.simulation.world.world import World

ECHO_REQUEST = encode_frame(encode_header(REQUEST, 1, ECHO.number, [5]), [b"abc"])
CORRUPT = ECHO_REQUEST[:14] + bytes([ECHO_REQUEST[14] ^ 1]) + ECHO_REQUEST[15:]
OVERSIZE = (161 << 20).to_bytes(4, "big") + (10).to_bytes(4, "big")

DAMAGE = {
    "garbage": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "a flipped bit": CORRUPT,
    "an oversize frame": OVERSIZE,
    "no cbor2": encode_frame(b"\xff\xff"),
    "a reply where a request belongs": encode_frame(encode_header(REPLY, 1, [])),
    "a request of another shape": encode_frame(encode_header(REQUEST, 1, ECHO.number)),
    "a request id that is no number": encode_frame(encode_header(REQUEST, "1", ECHO.number, [5])),
    "a handshake frame too late": encode_frame(encode_header(HELLO, FORMAT_WITHOUT_EPOCHS)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_stream_closes_its_connection_and_others_are_served(damage) -> None:
    async def test() -> None:
        async with pair() as (one, two):
            early = await Stranger.dial(two.port)
            early.write(damage)
            late = await Stranger.dial(two.port)
            await late.shake(Role.DIALER, identity(3), 2)
            late.write(ECHO_REQUEST)
            assert await late.receive() == [REPLY, 1, [5, 3]]
            late.write(damage)
            assert await late.receive() is None
            items = await early.receive()
            assert items is None or items[:2] == [REFUSED, RefusalCode.MALFORMED]
            assert await early.receive() is None
            assert await one.ask(two, 1) == Told(1, 0)
            await early.close()
            await late.close()

    run(test())


def test_what_a_peer_damages_is_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What strangers send before they have proved who they are is not."""

    async def test() -> None:
        async with nodes(identity(2)) as (two,):
            early = await Stranger.dial(two.port)
            early.write(CORRUPT)
            assert await early.receive() is not None
            for _ in range(3):
                stranger = await Stranger.dial(two.port)
                await stranger.shake(Role.DIALER, identity(3), 2)
                stranger.write(CORRUPT)
                assert await stranger.receive() is None
                await two.resets.get()
                await stranger.close()
            assert two.links.damaged == {3: 3}
            await early.close()

    with caplog.at_level(logging.WARNING):
        run(test())
    said = [record.getMessage() for record in caplog.records if "damaged" in record.getMessage()]
    assert said[0] == "link from node 3: a frame is damaged (number 1): the CRC of the header does not match"


def test_damage_is_logged_once_a_second_for_each_peer(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        log = DamageLog()
        for _ in range(3):
            for node in (2, 3):
                log.damaged(NodeId(node), "link from", "a frame", MalformedFrameError("flipped"))
            await asyncio.sleep(0.6)
        assert log.counts == {2: 3, 3: 3}

    with World(1) as world, caplog.at_level(logging.WARNING):
        world.run(world.add_node(1), test())
    assert sorted(record.getMessage() for record in caplog.records if "flipped" in record.getMessage()) == [
        f"link from node {node}: a frame is damaged (number {number}): flipped" for node in (2, 3) for number in (1, 3)
    ]


def test_a_payload_for_a_method_that_takes_none_is_refused_and_the_link_lives() -> None:
    """No checksum of a frame covers it, so the method's own must."""

    async def test() -> None:
        async with pair() as (one, two):
            with pytest.raises(RemoteError, match="early takes no payload, and 3 bytes came with it"):
                await one.ask(two, 1, [b"abc"], method=EARLY)
            assert two.links.damaged == {1: 1}
            assert await one.ask(two, 2, method=EARLY) == Told(2, 0)
            assert two.seen == [2]

    run(test())


def test_a_reply_with_a_payload_closes_the_link() -> None:
    async def test() -> None:
        async with nodes(identity(1)) as (one,):
            dialled: asyncio.Queue[Stranger] = asyncio.Queue()

            def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                dialled.put_nowait(Stranger(reader, writer))

            server = await asyncio.start_server(take, HOST, 0)
            one.links.set_peers({NodeId(2): Address(HOST, server.sockets[0].getsockname()[1])})
            peer = await dialled.get()
            await peer.shake(Role.ACCEPTOR, identity(2))
            await one.ups.get()
            peer.send(encode_header(REPLY, 1, [5, 3]), b"what is this")
            assert await one.resets.get() == 2
            assert one.links.damaged == {2: 1}
            server.close()
            await peer.close()

    run(test())


def test_a_truncated_frame_ends_with_its_connection() -> None:
    async def test() -> None:
        async with pair() as (one, two):
            stranger = await Stranger.dial(two.port)
            await stranger.shake(Role.DIALER, identity(3), 2)
            stranger.write(ECHO_REQUEST[:-1])
            stranger.write_eof()
            assert await stranger.receive() is None
            assert await two.resets.get() == 3
            assert two.seen == []
            assert await one.ask(two, 1) == Told(1, 0)
            await stranger.close()

    run(test())


def test_no_request_is_served_before_the_handshake() -> None:
    async def test() -> None:
        async with pair() as (_, two):
            stranger = await Stranger.dial(two.port)
            stranger.write(ECHO_REQUEST)
            assert (await stranger.receive() or [])[:2] == [REFUSED, RefusalCode.MALFORMED]
            assert await stranger.receive() is None
            assert two.seen == []
            await stranger.close()

    run(test())


def test_a_large_frame_is_refused_before_the_handshake() -> None:
    async def test() -> None:
        async with pair() as (_, two):
            stranger = await Stranger.dial(two.port)
            stranger.write((70_000).to_bytes(4, "big") + (10).to_bytes(4, "big"))
            assert (await stranger.receive() or [])[:2] == [REFUSED, RefusalCode.MALFORMED]
            await stranger.close()

    run(test())


def test_a_connection_that_never_shakes_hands_is_closed() -> None:
    async def test() -> None:
        async with pair(LinkOptions(handshake_timeout=0.1)) as (one, two):
            stranger = await Stranger.dial(two.port)
            assert await stranger.receive() is None
            assert await one.ask(two, 1) == Told(1, 0)
            await stranger.close()

    run(test())


def test_half_open_connections_do_not_stop_a_good_peer() -> None:
    async def test() -> None:
        async with nodes(identity(1), identity(2)) as (one, two):
            strangers = [await Stranger.dial(two.port) for _ in range(300)]
            one.dial(two)
            async with asyncio.timeout(3):  # less than the strangers' handshake deadline
                assert await one.ups.get() == 2
                assert await one.ask(two, 1) == Told(1, 0)
                # The oldest made room.
                for stranger in strangers[:44]:
                    assert await stranger.receive() is None
            for stranger in strangers:
                await stranger.close()

    run(test())


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (identity(2, secret=b"other"), "cluster secret"),
        (identity(2, secret=None), "cluster secret"),
        (identity(2, cluster="foreign"), "'foreign'"),
        (identity(3), "is answered by node 3"),
        (identity(2, directory="wiped"), "bring back its directory"),
    ],
)
def test_a_wrong_node_is_refused_with_one_warning_on_each_side(other, words, caplog) -> None:
    def know(one: Told, _: Told) -> None:
        one.links.set_known_replicas({NodeId(2): KnownReplica(DirectoryId("dir-2"))})

    messages = _warnings_of_refusals(other, know, caplog)
    assert all(words in message for message in messages)
    assert SECRET.decode() not in caplog.text


def _warnings_of_refusals(other, know, caplog) -> list[str]:
    """Let node 1 dial another one several times, and be refused; return the one warning of each side."""

    async def test() -> None:
        options = LinkOptions(refused_backoff=0.01)
        dials: asyncio.Queue[None] = asyncio.Queue()
        async with nodes(identity(1), other, options=options) as (one, two):
            accept = two.links._server.accept
            two.links._server.accept = lambda: dials.put_nowait(None) or accept()
            await restart(two)
            know(one, two)
            one.links.set_peers({NodeId(2): two.address})
            for _ in range(4):
                await dials.get()
            assert one.ups.empty()
            assert one.resets.empty()

    with caplog.at_level(logging.WARNING):
        run(test())
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len(set(messages)) == 2
    return messages


@pytest.mark.parametrize(
    ("other", "retired", "words"),
    [
        (replace(identity(2), generation=1), [], "one of the lower generation must join anew with an empty data.dir"),
        (identity(2), [DirectoryId("dir-2")], "is retired and never counts again: start node 2 with an empty data.dir"),
    ],
)
def test_who_does_not_count_any_more_is_refused_with_one_warning_on_each_side_that_has_the_cure(
    other, retired, words, caplog
) -> None:
    def know(one: Told, two: Told) -> None:
        for node in (one, two):
            node.links.prefer_epochs()
            node.links.require_epochs()
        one.links.set_known_replicas({}, retired=frozenset(retired))

    messages = _warnings_of_refusals(other, know, caplog)
    assert all(words in message for message in messages)


def test_the_newest_refusal_of_a_peer_is_remembered_until_a_link_works() -> None:
    async def test() -> None:
        options = LinkOptions(refused_backoff=0.01, backoff_max=0.05)
        async with nodes(identity(1), identity(2, secret=b"other"), options=options) as (one, two):
            one.dial(two)
            two.dial(one)
            while not (isinstance(one.links.why_down(NodeId(2)), HandshakeRefusedError) and one.links.refusals):
                await asyncio.sleep(0.005)
            assert one.links.refusals[NodeId(2)].refusal is RefusalCode.WRONG_SECRET
            await two.links.close()
            while not isinstance(one.links.why_down(NodeId(2)), OSError):
                await asyncio.sleep(0.005)
            assert NodeId(2) in one.links.refusals
            assert one.links.refusal_times[NodeId(2)] <= asyncio.get_running_loop().time()
            async with nodes(identity(2)) as (right,):
                one.dial(right)
                await one.ups.get()
                assert one.links.why_down(NodeId(2)) is None
                assert one.links.refusals == {}
                assert one.links.refusal_times == {}

    run(test())


def test_who_claims_to_be_a_node_whose_link_works_or_that_is_unknown_is_not_remembered(caplog) -> None:
    async def test() -> None:
        async with pair() as (one, two):
            two.dial(one)
            await two.ups.get()
            two.links.set_known_replicas({NodeId(n): KnownReplica(DirectoryId(f"dir-{n}")) for n in (1, 9)})
            for claimed in (1, 9):
                stranger = await Stranger.dial(two.port)
                stranger.send(encode_header(HELLO, FORMAT_WITHOUT_EPOCHS, "cluster", claimed, "wiped", b"n" * 32))
                items = await stranger.receive()
                assert items is not None
                assert items[:2] == [REFUSED, RefusalCode.WRONG_DIRECTORY]
                assert await stranger.receive() is None
                await stranger.close()
            assert caplog.text.count("refused: node") == 2
            assert two.links.refusals == {}

    run(test())


def test_a_wrong_inbound_node_is_told_why(caplog) -> None:
    async def test() -> None:
        async with pair() as (_, two):
            two.links.set_known_replicas({NodeId(3): KnownReplica(DirectoryId("dir-3"))})
            stranger = await Stranger.dial(two.port)
            stranger.send(encode_header(HELLO, FORMAT_WITHOUT_EPOCHS, "cluster", 3, "wiped", b"n" * 32))
            items = await stranger.receive()
            assert items is not None
            assert items[:2] == [REFUSED, RefusalCode.WRONG_DIRECTORY]
            assert await stranger.receive() is None
            await stranger.close()
            future = await Stranger.dial(two.port)
            future.send(encode_header(HELLO, FORMAT_VERSION + 1, {"all": "new"}))
            assert (await future.receive() or [])[:2] == [REFUSED, RefusalCode.UNSUPPORTED_VERSION]
            await future.close()

    run(test())


def test_a_replayed_handshake_is_refused_on_the_wire(caplog) -> None:
    async def test() -> None:
        async with pair() as (_, two):
            honest = await Stranger.dial(two.port)
            sent: list[bytes] = []
            send = honest.send
            honest.send = lambda header: sent.append(header) or send(header)
            await honest.shake(Role.DIALER, identity(3), 2)
            thief = await Stranger.dial(two.port)
            thief.send(sent[0])
            assert (await thief.receive() or [])[0] == HELLO
            thief.send(sent[1])
            assert (await thief.receive() or [])[:2] == [REFUSED, RefusalCode.WRONG_SECRET]
            await thief.close()
            await honest.close()

    run(test())


def test_a_newer_link_of_a_node_replaces_the_older() -> None:
    async def test() -> None:
        async with nodes(identity(2)) as (two,):
            older = await Stranger.dial(two.port)
            await older.shake(Role.DIALER, identity(3), 2)
            newer = await Stranger.dial(two.port)
            await newer.shake(Role.DIALER, identity(3), 2)
            assert await older.receive() is None
            assert await two.resets.get() == 3
            newer.write(ECHO_REQUEST)
            assert await newer.receive() == [REPLY, 1, [5, 3]]
            assert two.resets.empty()
            await older.close()
            await newer.close()

    run(test())


def test_a_peer_that_does_not_read_its_replies_is_closed() -> None:
    async def test() -> None:
        async with nodes(identity(2), options=LinkOptions(send_buffer_bytes=1000)) as (two,):
            stranger = await Stranger.dial(two.port)
            await stranger.shake(Role.DIALER, identity(3), 2)
            stranger._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stranger._writer.transport.pause_reading()
            stranger.write(ECHO_REQUEST * 500_000)
            assert await two.resets.get() == 3
            await stranger.close()

    run(test())


def test_a_dialer_waits_longer_each_time_up_to_a_bound() -> None:
    async def test() -> None:
        times: list[float] = []
        enough = asyncio.Event()

        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            times.append(asyncio.get_running_loop().time())
            if len(times) == 9:
                enough.set()
            writer.transport.abort()

        server = await asyncio.start_server(hang_up, HOST, 0)
        async with nodes(identity(1), options=LinkOptions(backoff_min=0.02, backoff_max=0.16)) as (one,):
            one.links.set_peers({NodeId(2): Address(HOST, server.sockets[0].getsockname()[1])})
            await enough.wait()
        server.close()
        waits = [later - earlier for earlier, later in itertools.pairwise(times)]
        # Half to the whole of 20, 40, 80, 160, 160, ... ms; machines are late, never early.
        for wait, longest in zip(waits, (0.02, 0.04, 0.08, *[0.16] * 5), strict=True):
            assert wait >= longest / 2 - 0.002

    run(test())


def test_a_refused_dialer_waits_at_least_its_own_backoff(caplog) -> None:
    async def test() -> None:
        times: list[float] = []
        enough = asyncio.Event()

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            times.append(asyncio.get_running_loop().time())
            if len(times) == 3:
                enough.set()
            stranger = Stranger(reader, writer)
            await stranger.receive()
            stranger.send(encode_header(REFUSED, RefusalCode.WRONG_CLUSTER, "no"))
            await stranger.receive()
            await stranger.close()

        server = await asyncio.start_server(refuse, HOST, 0)
        async with nodes(identity(1), options=LinkOptions(refused_backoff=0.2)) as (one,):
            one.links.set_peers({NodeId(2): Address(HOST, server.sockets[0].getsockname()[1])})
            await enough.wait()
        server.close()
        assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.2 - 0.002

    run(test())


def test_a_reply_out_of_shape_closes_the_link() -> None:
    async def test() -> None:
        async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            stranger = Stranger(reader, writer)
            await stranger.shake(Role.ACCEPTOR, identity(2))
            await stranger.receive()
            stranger.send(encode_header(PROOF, b"again"))
            await stranger.receive()
            await stranger.close()

        server = await asyncio.start_server(babble, HOST, 0)
        async with nodes(identity(1)) as (one,):
            one.links.set_peers({NodeId(2): Address(HOST, server.sockets[0].getsockname()[1])})
            await one.ups.get()
            one.links.send(NodeId(2), ECHO, Ask(1), timeout=5)
            assert await one.resets.get() == 2
        server.close()

    run(test())


async def restart(node) -> None:
    """Listen again, so that a replaced `accept` is used."""
    node.links._listener.close()
    node.links._listener = None
    node.port = await node.links.start(HOST, 0)


def test_a_refusal_names_the_address_it_came_from(caplog) -> None:
    async def test() -> None:
        async with pair() as (_, two):
            stranger = await Stranger.dial(two.port)
            stranger.write((50_000).to_bytes(4, "big") + (10).to_bytes(4, "big"))
            assert (await stranger.receive() or [])[:2] == [REFUSED, RefusalCode.MALFORMED]
            assert await stranger.receive() is None
            await stranger.close()

    with caplog.at_level(logging.WARNING):
        run(test())
    (message,) = caplog.messages
    assert message.startswith(f"handshake with an unknown node from {HOST} refused: a frame of 50000 bytes; 8192")


def test_nothing_is_written_to_a_transport_that_failed_a_moment_ago(caplog) -> None:
    async def test() -> None:
        async with pair() as (one, two):
            link = one.links._outgoing[NodeId(2)]
            link._connection._transport.abort()  # As asyncio does where a send fails; `connection_lost` comes later.
            for _ in range(20):
                with pytest.raises(LinkDownError):
                    await one.ask(two, 1)

    run(test())
    assert "socket.send()" not in caplog.text
