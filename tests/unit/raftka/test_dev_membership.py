"""What `raftka dev add` says where a cluster does not take the broker."""

import subprocess
import sys
from pathlib import Path

import pytest

from raftka.dev import membership, operations, supervisor
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState
from raftka.dev.errors import DevError
from raftka.dev.launcher import prepare_folder
from raftka.dev.ports import BrokerAddresses
from raftka.dev.process_identity import ProcessIdentity

# As `cluster.joining` of a broker that asks a cluster below the level.
_REFUSAL = "brokers that join need raftka.membership at level 1, and the cluster uses it at level 0"


def test_below_the_level_a_broker_is_not_added_and_the_cure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ClusterFolder(tmp_path)
    one = BrokerEntry(1, BrokerAddresses("127.0.0.1:9092", "127.0.0.1:9644", "127.0.0.1:33145"))
    lives = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with folder.locked():
            folder.save(ClusterState((one,), ephemeral=False).with_process(1, ProcessIdentity.of(lives.pid)))
        monkeypatch.setattr(membership, "launch", lambda *_, **__: _killed(folder))
        with pytest.raises(DevError) as raised:
            membership.add_broker(folder)
        assert str(raised.value) == (
            f"broker 2 was not added: it ended while starting (signal SIGKILL); its log: {folder.log_path(2)}"
        )
        assert [each.node_id for each in folder.load_existing().brokers] == [1]
        assert folder.log_path(2).read_text() == "starting\n"
        monkeypatch.setattr(membership, "launch", lambda *_, **__: _refused(folder))
        with pytest.raises(DevError) as raised:
            membership.add_broker(folder)
        assert str(raised.value) == (
            f"broker 2 was not added: {_REFUSAL}; an older version has made the cluster: once no broker runs it any"
            " more, `raftka cluster features upgrade` lets brokers join and leave"
        )
        assert [each.node_id for each in folder.load_existing().brokers] == [1]
        assert not folder.node_path(2).exists()
    finally:
        lives.kill()
        lives.communicate()


def _refused(folder: ClusterFolder) -> "subprocess.Popen[bytes]":
    """A broker that has ended as one does that is refused."""
    folder.node_path(2).mkdir(parents=True, exist_ok=True)
    folder.log_path(2).write_text(f"raftka: {_REFUSAL}\n")
    # It has ended before the next look, or a look later: either is seen.
    return subprocess.Popen([sys.executable, "-c", "raise SystemExit(78)"])


def _killed(folder: ClusterFolder) -> "subprocess.Popen[bytes]":
    """A broker that somebody kills before it has said anything to its operator."""
    folder.node_path(2).mkdir(parents=True, exist_ok=True)
    folder.log_path(2).write_text("starting\n")
    return subprocess.Popen([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])


@pytest.mark.parametrize(
    "reason",
    [
        "the data directory of this broker (1) is retired and never counts again",
        "broker 1 was removed from the cluster",
    ],
)
def test_a_broker_that_is_in_the_cluster_no_longer_is_told_at_once_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    folder = ClusterFolder(tmp_path)
    one, two = (
        BrokerEntry(node, BrokerAddresses(f"127.0.0.1:{9091 + node}", f"127.0.0.1:{9643 + node}", "127.0.0.1:33145"))
        for node in (1, 2)
    )
    lives = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with folder.locked():
            state = ClusterState((one, two), ephemeral=False).with_process(2, ProcessIdentity.of(lives.pid))
            folder.save(state)
        monkeypatch.setattr(supervisor, "not_ready_reason", lambda *_, **__: reason)
        monkeypatch.setattr(operations, "launch", lambda *_, **__: lives)
        # The folder was lost with the disk.
        with pytest.raises(DevError, match=r"broker\.toml is gone: bring it back, or make"):
            operations.restart_broker(folder, 1)
        prepare_folder(folder, state)
        with pytest.raises(DevError) as raised:
            operations.restart_broker(folder, 1)
        assert str(raised.value) == (
            f"broker 1 is not ready: {reason}; move {folder.node_path(1) / 'data'} away, and nothing else of that"
            " folder, then: raftka dev restart 1; if the broker was removed from the cluster, leave it stopped"
        )
    finally:
        lives.kill()
        lives.communicate()
