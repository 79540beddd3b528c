"""The folder of a dev cluster and the identity of its processes."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState, default_folder
from raftka.dev.errors import DevError
from raftka.dev.launcher import broker_config, launch, prepare_folder
from raftka.dev.ports import BrokerAddresses
from raftka.dev.process_identity import ProcessIdentity
from raftka.dev.supervisor import DevCluster
from raftka.harmless_signals import HARMLESS_SIGNALS


def some_state(nodes: int = 3) -> ClusterState:
    addresses = [
        BrokerAddresses(f"127.0.0.1:{9091 + each}", f"127.0.0.{10 + each}:33145", f"127.0.0.1:{9643 + each}")
        for each in range(1, nodes + 1)
    ]
    return ClusterState(tuple(BrokerEntry(node, each) for node, each in enumerate(addresses, 1)), ephemeral=False)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    state = some_state().with_process(2, ProcessIdentity.of(os.getpid()))
    folder.save(state)
    assert folder.load() == state
    assert folder.load_existing().broker(2).is_alive
    assert not folder.load_existing().broker(1).is_alive


def test_no_file_is_no_cluster(tmp_path: Path) -> None:
    assert ClusterFolder(tmp_path).load() is None
    with pytest.raises(DevError, match="there is no cluster in"):
        ClusterFolder(tmp_path / "nowhere").load_existing()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 1, "brokers": [{}]}'])
def test_a_damaged_file_is_one_line_that_names_it(tmp_path: Path, text: str) -> None:
    folder = ClusterFolder(tmp_path)
    folder.state_path.write_text(text)
    with pytest.raises(DevError, match=r"cluster\.json is damaged"):
        folder.load()


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    folder.save(some_state())
    folder.state_path.write_text(json.dumps(json.loads(folder.state_path.read_text()) | {"format": 3}))
    with pytest.raises(DevError, match="has format 3; this version of raftka reads up to 2"):
        folder.load()


def test_two_commands_cannot_change_a_cluster_at_once(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    with folder.locked(), pytest.raises(DevError, match="another `raftka dev` command is using"), folder.locked():
        pass
    with folder.locked():
        pass


@pytest.mark.parametrize("node_id", [0, 4, -1])
def test_a_broker_that_does_not_exist_is_refused(node_id: int) -> None:
    with pytest.raises(DevError, match="the cluster has brokers 1 to 3"):
        some_state().broker(node_id)


def test_the_secret_is_readable_by_its_owner_only_and_stays(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    prepare_folder(folder, some_state())
    secret = folder.secret_path.read_bytes()
    assert len(secret) == 32
    assert folder.secret_path.stat().st_mode & 0o777 == 0o600
    prepare_folder(folder, some_state())
    assert folder.secret_path.read_bytes() == secret


def test_an_edited_broker_file_counts_but_not_for_addresses(tmp_path: Path) -> None:
    folder, state = ClusterFolder(tmp_path), some_state()
    prepare_folder(folder, state)
    file = folder.node_path(1) / "broker.toml"
    file.write_text(file.read_text().replace("kafka.port = 9092", "kafka.port = 1") + "raft.flush.interval.ms = 7\n")
    config = broker_config(folder, state, state.broker(1))
    assert (config.kafka_port, config.raft_flush_interval_ms, len(config.seeds)) == (9092, 7, 3)
    file.write_text("nonsense = 1\n")
    with pytest.raises(DevError, match="unknown option nonsense"):
        broker_config(folder, state, state.broker(1))


def test_the_default_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "raftka" / "dev"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".local" / "share" / "raftka" / "dev"


def test_a_recycled_pid_is_another_process_and_is_not_signalled() -> None:
    own = ProcessIdentity.of(os.getpid())
    assert own is not None
    assert own.is_alive
    impostor = ProcessIdentity(own.pid, own.started + "0")
    assert not impostor.is_alive
    # Signal 9 would end this test run.
    assert not impostor.send_signal(signal.SIGKILL)


def test_a_killed_process_is_gone_even_before_it_is_reaped() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None
        assert identity.send_signal(signal.SIGKILL)
        assert identity.wait_gone(10.0)
        child.wait()
    assert ProcessIdentity.of(child.pid) is None


def test_options_of_the_cluster_reach_every_broker_and_win_over_its_file(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    state = replace(some_state(), options={"telemetry.enable": "true"})
    prepare_folder(folder, state)
    (folder.node_path(2) / "broker.toml").write_text("telemetry.enable = false\n")
    folder.save(state)
    loaded = folder.load_existing()
    assert all(broker_config(folder, loaded, broker).telemetry_enable for broker in loaded.brokers)


def test_a_folder_without_options_is_read(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    folder.save(some_state())
    document = json.loads(folder.state_path.read_text())
    del document["options"]
    folder.state_path.write_text(json.dumps(document))
    assert folder.load() == some_state()


@pytest.mark.parametrize(
    ("key", "value", "refusal"),
    [
        ("telemetry.enabel", "true", r"unknown option telemetry\.enabel; did you mean telemetry\.enable\?"),
        ("telemetry.enable", "perhaps", "must be true or false"),
        ("node.id", "7", "-c node.id: `raftka dev` sets this option itself"),
    ],
)
def test_options_that_no_broker_can_have_are_refused(tmp_path: Path, key: str, value: str, refusal: str) -> None:
    folder = ClusterFolder(tmp_path)
    state = replace(some_state(), options={key: value})
    prepare_folder(folder, state)
    with pytest.raises(DevError, match=refusal):
        broker_config(folder, state, state.brokers[0])


@pytest.mark.parametrize("tied", [True, False])
def test_a_broker_begins_with_the_signals_blocked_that_must_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tied: bool
) -> None:
    folder, state = ClusterFolder(tmp_path), some_state(1)
    prepare_folder(folder, state)
    shown = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    monkeypatch.setattr("raftka.dev.launcher.broker_command", lambda *_: [sys.executable, "-I", "-c", shown])
    broker = state.broker(1)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    launch(folder, broker, broker_config(folder, state, broker), tied).wait()
    assert folder.log_path(1).read_text() == f"{sorted(HARMLESS_SIGNALS)}\n"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_who_is_added_asks_the_others_and_founders_keep_their_seeds_and_no_id_comes_twice(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    founders = ["1@127.0.0.11:33145", "2@127.0.0.12:33145", "3@127.0.0.13:33145"]
    state = some_state()
    assert state.next_id == 4
    state = state.with_broker(BrokerEntry(4, BrokerAddresses("127.0.0.1:9095", "127.0.0.14:33145", "127.0.0.1:9647")))
    state = state.without_broker(1)
    assert [broker.node_id for broker in state.brokers] == [2, 3, 4]
    assert state.seeds_of(2) == founders
    assert state.seeds_of(4) == founders[1:]
    state = state.without_broker(4)
    assert state.next_id == 5
    folder.save(state)
    assert folder.load() == state
    with pytest.raises(DevError, match="there is no broker 1: the cluster has brokers 2 to 3"):
        state.broker(1)


def test_an_earlier_version_reads_the_file_of_a_cluster_of_its_founders_only(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path)
    folder.save(some_state())
    assert json.loads(folder.state_path.read_text())["format"] == 1
    folder.save(some_state().without_broker(1))
    assert json.loads(folder.state_path.read_text())["format"] == 2


def test_the_supervisor_tells_of_brokers_that_were_added_and_removed_by_another_command(tmp_path: Path) -> None:
    folder, state = ClusterFolder(tmp_path), some_state()
    folder.save(state)
    told: queue.Queue[str] = queue.Queue()
    stop = threading.Event()
    watching = threading.Thread(target=DevCluster(folder, state).watch, args=(stop, told.put))
    watching.start()
    try:
        addresses = BrokerAddresses("127.0.0.1:9095", "127.0.0.14:33145", "127.0.0.1:9647")
        state = state.with_broker(BrokerEntry(4, addresses, ProcessIdentity.of(os.getpid())))
        folder.save(state)
        assert told.get(timeout=30) == "broker 4 was added"
        folder.save(state.without_broker(1))
        assert told.get(timeout=30) == "broker 1 was removed"
    finally:
        stop.set()
        watching.join(30)
    assert told.empty()
