"""Who may talk to whom."""

from dataclasses import replace

import pytest
from rpc_nodes import identity

from model.ids import DirectoryId, NodeId
from rpc.codec import HELLO, PROOF, REQUEST, decode_header, encode_header
from rpc.errors import HandshakeRefusedError, MalformedFrameError, RefusalCode
from rpc.handshake import (
    FORMAT_VERSION,
    FORMAT_WITHOUT_EPOCHS,
    NONCE_BYTES,
    Handshake,
    KnownReplicas,
    Role,
    refusal_header,
)
from rpc.identity import Epoch, KnownReplica, LinkIdentity


def dialer(who: LinkIdentity, node: int = 2, nonce: bytes = b"d", known=None) -> Handshake:
    nonce = nonce * NONCE_BYTES
    return Handshake(Role.DIALER, who, nonce, dialled_node=NodeId(node), known=KnownReplicas(known or {}))


def acceptor(who: LinkIdentity, nonce: bytes = b"a", known=None) -> Handshake:
    return Handshake(Role.ACCEPTOR, who, nonce * NONCE_BYTES, dialled_node=None, known=KnownReplicas(known or {}))


def shake(one: Handshake, two: Handshake) -> list[tuple[Handshake, bytes]]:
    """Carry headers between the two until nobody has more to say; return who sent what."""
    sent = [(one, header) for header in one.start()]
    for sender, header in sent:
        receiver = two if sender is one else one
        sent += [(receiver, answer) for answer in receiver.receive(decode_header(header))]
    return sent


def refusal_of(one: Handshake, two: Handshake) -> RefusalCode:
    with pytest.raises(HandshakeRefusedError) as caught:
        shake(one, two)
    assert one.peer is None
    assert two.peer is None
    return caught.value.refusal


@pytest.mark.parametrize("clusters", [("c", "c"), (None, "c"), ("c", None), (None, None)])
@pytest.mark.parametrize("secret", [b"x" * 32, None])
def test_two_nodes_of_a_cluster_learn_who_the_other_is(clusters, secret) -> None:
    one, two = (identity(i + 1, cluster=clusters[i], secret=secret) for i in range(2))
    dialing, accepting = dialer(one), acceptor(two)
    shake(dialing, accepting)
    assert dialing.peer is not None
    assert accepting.peer is not None
    assert (dialing.peer.replica, accepting.peer.replica) == (two.replica, one.replica)
    assert dialing.peer.is_founded is accepting.peer.is_founded is (None not in clusters)


def test_a_wrong_secret_is_refused() -> None:
    for secret in (b"other", None):
        assert refusal_of(dialer(identity(1, secret=secret)), acceptor(identity(2))) is RefusalCode.WRONG_SECRET


def test_an_acceptor_with_another_secret_that_lets_everybody_in_is_refused() -> None:
    dialing, accepting = dialer(identity(1)), acceptor(identity(2, secret=b"other"))
    (hello,) = dialing.start()
    (answer,) = accepting.receive(decode_header(hello))
    (proof,) = dialing.receive(decode_header(answer))
    for forged in (b"", b"\0" * 32, decode_header(proof)[1]):
        with pytest.raises(HandshakeRefusedError, match="secret"):
            dialing.receive([PROOF, forged])


def test_another_cluster_is_refused() -> None:
    assert refusal_of(dialer(identity(1)), acceptor(identity(2, cluster="o"))) is RefusalCode.WRONG_CLUSTER


def test_a_dialled_node_that_answers_as_another_is_refused() -> None:
    assert refusal_of(dialer(identity(1)), acceptor(identity(3))) is RefusalCode.WRONG_NODE


def test_a_second_node_with_ones_own_id_is_refused() -> None:
    assert refusal_of(dialer(identity(2, directory="x"), 1), acceptor(identity(2))) is RefusalCode.WRONG_NODE


@pytest.mark.parametrize("side", [0, 1])
def test_a_node_with_another_directory_than_the_known_one_is_refused(side) -> None:
    one, two = identity(1), identity(2)
    known = {NodeId(2 - side): KnownReplica(DirectoryId("another"))}
    ends = (dialer(one, known=known), acceptor(two)) if side == 0 else (dialer(one), acceptor(two, known=known))
    assert refusal_of(*ends) is RefusalCode.WRONG_DIRECTORY


def test_an_unknown_version_is_refused_whatever_follows_it() -> None:
    for rest in ([], ["anything", 3, {}]):
        with pytest.raises(HandshakeRefusedError, match="format 99") as caught:
            acceptor(identity(2)).receive([HELLO, 99, *rest])
        assert caught.value.refusal is RefusalCode.UNSUPPORTED_VERSION


def test_a_replayed_handshake_is_refused() -> None:
    first, accepting = dialer(identity(1)), acceptor(identity(2))
    recorded = [header for sender, header in shake(first, accepting) if sender is first]
    victim = acceptor(identity(2), nonce=b"b")
    victim.receive(decode_header(recorded[0]))
    with pytest.raises(HandshakeRefusedError, match="secret"):
        victim.receive(decode_header(recorded[1]))


def test_a_proof_cannot_be_reflected() -> None:
    dialing = dialer(identity(1))
    (hello,) = dialing.start()
    (answer,) = acceptor(identity(2)).receive(decode_header(hello))
    (proof,) = dialing.receive(decode_header(answer))
    with pytest.raises(HandshakeRefusedError, match="secret"):
        dialing.receive(decode_header(proof))


def living(formats=(FORMAT_VERSION,), retired=(), **known):
    """What a node of a cluster knows in which brokers come and go."""
    by_node = {NodeId(int(name[1:])): KnownReplica(*each) for name, each in known.items()}
    return KnownReplicas(by_node, frozenset(retired), formats)


def shaken(who, accepting, knows, link_format=FORMAT_VERSION):
    """Return the acceptor's end of a handshake, or raise its refusal."""
    nonce = b"d" * NONCE_BYTES
    dialing = Handshake(
        Role.DIALER, who, nonce, dialled_node=NodeId(2), known=KnownReplicas({}), link_format=link_format
    )
    end = Handshake(Role.ACCEPTOR, accepting, b"a" * NONCE_BYTES, dialled_node=None, known=knows)
    shake(dialing, end)
    return end


def test_format_4_tells_the_epoch_and_format_3_does_not() -> None:
    who = replace(identity(1), epoch=Epoch(0, 57))
    assert shaken(who, identity(2), living()).peer.epoch == Epoch(0, 57)
    both = living(formats=(FORMAT_WITHOUT_EPOCHS, FORMAT_VERSION))
    assert shaken(who, identity(2), both, FORMAT_WITHOUT_EPOCHS).peer.epoch is None


def test_an_older_format_is_refused_once_epochs_are_needed() -> None:
    with pytest.raises(HandshakeRefusedError, match=r"raftka\.membership at level 1") as caught:
        shaken(identity(1), identity(2), living(), FORMAT_WITHOUT_EPOCHS)
    assert caught.value.refusal is RefusalCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    ("epoch", "is_taken"), [(Epoch(0, 9), False), (Epoch(0, 10), False), (Epoch(0, 11), True), (Epoch(1, 1), True)]
)
def test_another_directory_needs_a_later_epoch(epoch: Epoch, is_taken: bool) -> None:
    who, knows = replace(identity(1), epoch=epoch), living(n1=(DirectoryId("another"), Epoch(0, 10)))
    if is_taken:
        assert shaken(who, identity(2), knows).peer is not None
        return
    with pytest.raises(HandshakeRefusedError) as caught:
        shaken(who, identity(2), knows)
    assert caught.value.refusal is RefusalCode.WRONG_DIRECTORY


def test_a_retired_directory_is_refused_with_the_cure_whatever_its_epoch() -> None:
    who = replace(identity(1), epoch=Epoch(9, 9))
    with pytest.raises(HandshakeRefusedError, match=r"retired.*empty data\.dir") as caught:
        shaken(who, identity(2), living(retired=[who.replica.directory_id]))
    assert caught.value.refusal is RefusalCode.WRONG_DIRECTORY


def test_another_generation_of_raft0_is_refused() -> None:
    with pytest.raises(HandshakeRefusedError, match="generation"):
        shaken(replace(identity(1), generation=1), identity(2), living())


def test_who_is_in_no_cluster_is_not_compared_where_brokers_join() -> None:
    stranger = identity(1, cluster=None)
    knows = living(n1=(DirectoryId("another"), Epoch(0, 1)))
    end = shaken(stranger, identity(2), knows)
    assert not end.peer.is_founded


def test_a_proof_is_bound_to_what_the_hello_said() -> None:
    honest, accepting = dialer(identity(1)), acceptor(identity(2))
    (hello,) = honest.start()
    for position, value in ((2, None), (3, 7), (4, "dir-7"), (5, b"z" * NONCE_BYTES)):
        accepting, honest = acceptor(identity(2)), dialer(identity(1))
        honest.start()
        changed = decode_header(hello)
        changed[position] = value
        (answer,) = accepting.receive(changed)
        (proof,) = honest.receive(decode_header(answer))
        with pytest.raises(HandshakeRefusedError, match="secret"):
            accepting.receive(decode_header(proof))


@pytest.mark.parametrize(
    "items",
    [
        [REQUEST, 1, 1, []],
        [PROOF, b"x" * 32],
        [HELLO, FORMAT_WITHOUT_EPOCHS],
        [HELLO, FORMAT_VERSION, "c", 1, "d", b"n" * 32],
        [HELLO, FORMAT_VERSION, "c", 1, "d", b"n" * 32, 0, 0, -1],
        [HELLO, FORMAT_VERSION, "c", 1, "d", b"n" * 32, "0", 0, 1],
        [HELLO, FORMAT_VERSION, "c", 1, "d", b"n" * 32, 0, True, 1],
        [HELLO, FORMAT_WITHOUT_EPOCHS, 5, 1, "d", b"n" * 32],
        [HELLO, FORMAT_WITHOUT_EPOCHS, "", 1, "d", b"n" * 32],
        [HELLO, FORMAT_WITHOUT_EPOCHS, "c", "1", "d", b"n" * 32],
        [HELLO, FORMAT_WITHOUT_EPOCHS, "c", -1, "d", b"n" * 32],
        [HELLO, FORMAT_WITHOUT_EPOCHS, "c", True, "d", b"n" * 32],
        [HELLO, FORMAT_WITHOUT_EPOCHS, "c", 1, "", b"n" * 32],
        [HELLO, FORMAT_WITHOUT_EPOCHS, "c", 1, "d" * 65, b"n" * 32],
        [HELLO, FORMAT_WITHOUT_EPOCHS, "c", 1, "d", b"n" * 31],
        [5, 77, "m"],
        [5, 1],
        [9],
    ],
)
def test_a_malformed_frame_is_refused(items) -> None:
    with pytest.raises(MalformedFrameError):
        acceptor(identity(2)).receive(items)


def test_a_second_hello_is_refused() -> None:
    accepting = acceptor(identity(2))
    (hello,) = dialer(identity(1)).start()
    accepting.receive(decode_header(hello))
    with pytest.raises(MalformedFrameError, match="out of turn"):
        accepting.receive(decode_header(hello))


def test_a_refusal_reaches_the_other_side_with_its_reason() -> None:
    header = refusal_header(HandshakeRefusedError(RefusalCode.WRONG_NODE, "why"))
    with pytest.raises(HandshakeRefusedError, match="the peer says: why") as caught:
        dialer(identity(1)).receive(decode_header(header))
    assert caught.value.by_peer
    assert caught.value.refusal is RefusalCode.WRONG_NODE
    assert decode_header(refusal_header(MalformedFrameError("m"))) == decode_header(encode_header(5, 1, "m"))


def test_an_identity_never_shows_its_secret() -> None:
    assert "hidden" not in repr(replace(identity(1), secret=b"hidden"))
