"""Which folders of ephemeral clusters are removed by the next one."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState
from raftka.dev.ephemeral import remove_abandoned
from raftka.dev.ports import BrokerAddresses
from raftka.dev.process_identity import ProcessIdentity


def dead() -> ProcessIdentity:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = ProcessIdentity.of(process.pid)
        assert identity is not None
        process.communicate(b"\n")
    return identity


def alive() -> ProcessIdentity:
    identity = ProcessIdentity.of(os.getpid())
    assert identity is not None
    return identity


def test_only_what_a_dead_supervisor_with_dead_brokers_left_is_removed(tmp_path: Path) -> None:
    broker = BrokerEntry(1, BrokerAddresses("127.0.0.1:1", "127.0.0.11:1", "127.0.0.1:2"), dead())
    abandoned = ClusterState((broker,), ephemeral=True, supervisor=dead())
    states = {
        "raftka-dev-abandoned": abandoned,
        "raftka-dev-supervised": replace(abandoned, supervisor=alive()),
        "raftka-dev-brokers-run": replace(abandoned, brokers=(replace(broker, process=alive()),)),
        "raftka-dev-detached": replace(abandoned, supervisor=None),
        "raftka-dev-kept": replace(abandoned, ephemeral=False),
        "another-program": abandoned,
    }
    for name, state in states.items():
        (tmp_path / name).mkdir()
        ClusterFolder(tmp_path / name).save(state)
    (tmp_path / "raftka-dev-new").mkdir()
    (tmp_path / "raftka-dev-damaged").mkdir()
    (tmp_path / "raftka-dev-damaged" / "cluster.json").write_text("{")
    (tmp_path / "raftka-dev-file").write_text("")
    (tmp_path / "raftka-dev-link").symlink_to(tmp_path / "another-program")
    before = {path.name for path in tmp_path.iterdir()}
    remove_abandoned(tmp_path)
    assert before - {path.name for path in tmp_path.iterdir()} == {"raftka-dev-abandoned"}
