"""Ports of dev clusters, on the real loopback interface."""

import socket

import pytest

from raftka.dev.errors import DevError
from raftka.dev.ports import BrokerAddresses, PortRequest, check_free, choose_addresses, choose_next

FREE = PortRequest(0, 0, 0)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_free_ports_differ_and_can_be_used() -> None:
    addresses = choose_addresses(3, FREE)
    ports = [port_of(address) for each in addresses for address in (each.kafka, each.admin)]
    assert len(set(ports)) == 6
    check_free(addresses)


def test_node_links_share_a_port_on_addresses_of_their_own() -> None:
    addresses = choose_addresses(3, FREE)
    assert [each.rpc.partition(":")[0] for each in addresses] == ["127.0.0.11", "127.0.0.12", "127.0.0.13"]
    assert len({port_of(each.rpc) for each in addresses}) == 1


def test_given_ports_are_counted_up_from_the_first() -> None:
    first = port_of(choose_addresses(1, FREE)[0].kafka)
    try:
        addresses = choose_addresses(2, PortRequest(first, 0, 0))
    except DevError:
        pytest.skip("the port behind the free one is taken on this machine")
    assert [port_of(each.kafka) for each in addresses] == [first, first + 1]


@pytest.mark.parametrize(
    ("flag", "kind", "host"),
    [("--port", "kafka", "127.0.0.1"), ("--admin-port", "admin", "127.0.0.1"), ("--rpc-port", "rpc", "127.0.0.11")],
)
def test_a_taken_port_is_an_error_that_names_the_flag(flag: str, kind: str, host: str) -> None:
    with socket.socket() as taken:
        taken.bind((host, 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        request = PortRequest(**({"kafka": 0, "admin": 0, "rpc": 0} | {kind: port}))
        with pytest.raises(DevError, match=rf"^{flag}: {host}:{port} is taken .*choose another {flag}"):
            choose_addresses(1, request)


def test_ports_past_the_last_one_are_refused() -> None:
    with pytest.raises(DevError, match="--port 65535: 3 brokers need the ports up to 65537"):
        choose_addresses(3, PortRequest(65_535, 0, 0))


def test_a_cluster_that_comes_back_is_told_which_of_its_ports_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        free = choose_addresses(1, FREE)[0]
        with pytest.raises(DevError, match=r"^--admin-port: "):
            check_free([BrokerAddresses(free.kafka, free.rpc, f"127.0.0.1:{taken.getsockname()[1]}")])


def test_a_broker_that_is_added_gets_the_ports_behind_those_of_the_others_or_free_ones() -> None:
    others = choose_addresses(2, PortRequest(0, 0, 0))
    found = choose_next(9, others)
    check_free([found])
    assert found.rpc.startswith("127.0.0.19:")
    assert not {found.kafka, found.admin} & {each for address in others for each in (address.kafka, address.admin)}
    last = BrokerAddresses("127.0.0.1:65535", others[0].rpc, others[0].admin)
    assert choose_next(3, [last]).kafka != "127.0.0.1:65536"
    with pytest.raises(DevError, match="node ids up to 244"):
        choose_next(245, others)
