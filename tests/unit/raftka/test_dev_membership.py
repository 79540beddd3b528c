"""What `raftka dev add` says where a cluster does not take the broker."""

import subprocess
import sys
from pathlib import Path

import pytest

from raftka.dev import membership
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState
from raftka.dev.errors import DevError
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
