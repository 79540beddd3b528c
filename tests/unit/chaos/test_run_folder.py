"""The folder of a run: its own, and free again after a start that was refused."""

from pathlib import Path

import pytest

from raftka.chaos.errors import ChaosError
from raftka.chaos.network_namespace import NetworkNamespaceError
from raftka.chaos.run_folder import clear_folder, keep_cluster, prepare_folder


def _refused(out: Path) -> None:
    prepare_folder(out)
    (out / "history.jsonl").touch()
    (out / "schedule.json").touch()
    (out / "cluster" / "node-1").mkdir(parents=True)


def test_a_refused_start_can_be_tried_again_with_the_same_folder(tmp_path: Path):
    _refused(tmp_path / "run")
    clear_folder(tmp_path / "run")
    prepare_folder(tmp_path / "run")


def test_the_log_of_a_broker_that_did_not_start_stays(tmp_path: Path):
    _refused(tmp_path)
    log = tmp_path / "cluster" / "node-1" / "broker.log"
    log.touch()
    clear_folder(tmp_path)
    assert log.exists()
    assert not (tmp_path / "history.jsonl").exists()


def test_a_folder_with_anything_in_it_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(ChaosError, match="not empty"):
        prepare_folder(tmp_path)


def test_data_that_anomalies_were_found_in_get_a_name_of_their_own(tmp_path: Path):
    _refused(tmp_path)
    keep_cluster(tmp_path)
    assert (tmp_path / "data" / "node-1").exists()


def test_a_network_that_fails_under_way_is_an_error_of_the_run():
    assert issubclass(NetworkNamespaceError, ChaosError)
