"""What `raftka doctor` makes of machines and clusters, and what bench and config tables say, without any broker."""

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from raftka.chaos.latencies import LatencyHistogram
from raftka.cli import machine_checks
from raftka.cli.bench import histogram_lines
from raftka.cli.cluster_config import merged
from raftka.cli.root import run
from raftka.config import load_config
from raftka.health.findings import Finding, Level
from raftka.health.picture import BrokerPicture, PartitionPicture, Picture
from raftka.health.rules import RULES, judge
from raftka.kafka.configs import ConfigValue
from raftka.kafka.errors import KafkaClientError
from raftka.kafka.groups import GroupInfo, GroupMember
from tests.unit.raftka.health_examples import found as found_by

NOBODY = "127.0.0.1:1"


def cluster(
    nodes: int, *, lost: tuple[int, ...] = (), is_raftka: bool = True, **topics: tuple[PartitionPicture, ...]
) -> Picture:
    brokers = tuple(BrokerPicture(node, f"h{node}:9092", node not in lost) for node in range(1, nodes + 1))
    partitions = tuple(replace(each, topic=name) for name, numbers in topics.items() for each in numbers)
    return Picture(brokers=brokers, controller=1, partitions=partitions, is_raftka=is_raftka)


def partition(number: int, leader: int, *replicas: int) -> PartitionPicture:
    return PartitionPicture("t", number, leader, replicas, replicas)


def config(key: str, value: str) -> ConfigValue:
    return ConfigValue(key, value, "broker", False, True)


def levels(findings: Iterable[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


def wrong(rule: str, picture: Picture) -> list[Finding]:
    return next(found_by(each, picture) for each in RULES if each.name == rule)


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> dict[str, dict[str, Any]]:
    assert run(["doctor", *arguments, "-f", "json"]) == code
    return {each["what"]: each for each in json.loads(capsys.readouterr().out)["findings"]}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAFTKA_BROKERS", "RAFTKA_NODE_ID", "RAFTKA_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_a_machine_is_looked_at_as_the_broker_would_use_it(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("node.id = 1\nkafka.port = 0\nadmin.port = 0\n")
    config = load_config({"data.dir": str(tmp_path / "not" / "yet")}, None, file)
    found = {finding.what: finding for finding in machine_checks.check_machine(config)}
    assert {"python", "open files", "clock", "disk room", "fsync", "kafka port", "admin port"} <= found.keys()
    assert found["fsync"].words.startswith(f"{tmp_path}: median ")
    assert found["kafka port"].level is Level.OK
    assert all(finding.cure for finding in found.values() if finding.level is not Level.OK)
    assert list(tmp_path.iterdir()) == [file], "it leaves nothing behind"


@pytest.mark.parametrize(
    ("prefix", "arguments", "level"),
    [
        # As Debian's own tells of itself, one of a container image, and one that a version manager has compiled.
        ("/usr", "'--enable-shared' '--prefix=/usr' '--without-ensurepip'", Level.OK),
        ("/usr/local", "'--enable-optimizations' '--with-lto'", Level.OK),
        ("/opt/pyenv/versions/3.11.7", "'--enable-shared'", Level.NOTE),
    ],
)
def test_a_python_that_is_slower_than_it_might_be_is_named(
    monkeypatch: pytest.MonkeyPatch, prefix: str, arguments: str, level: Level
) -> None:
    monkeypatch.setattr("sys.base_prefix", prefix)
    monkeypatch.setattr("sysconfig.get_config_var", {"CONFIG_ARGS": arguments}.get)
    assert machine_checks._python().level is level


def test_a_disk_on_which_a_broker_would_take_no_records_is_a_problem(tmp_path: Path) -> None:
    found = machine_checks._disk_room(tmp_path, 2**60)
    assert (found.level, "a broker refuses records below" in found.words) == (Level.PROBLEM, True)
    assert "retention" in found.cure


def test_a_configuration_that_cannot_be_used_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broker.toml"
    file.write_text('"kafka.prt" = 1\n')
    found = doctor(capsys, "machine", "--config", str(file), code=1)
    assert "did you mean kafka.port?" in found["configuration"]["words"]
    assert found["configuration"]["cure"].startswith("`raftka config example`")


def test_a_cluster_that_was_asked_for_and_does_not_answer_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    found = doctor(capsys, "cluster", "--brokers", NOBODY, code=1)
    assert NOBODY in found["brokers"]["words"]
    assert found["brokers"]["level"] == "problem"


def test_the_json_of_the_doctor_has_causes(capsys: pytest.CaptureFixture[str]) -> None:
    found = doctor(capsys, "cluster", "--brokers", NOBODY, code=1)
    assert list(found["brokers"]) == ["area", "level", "what", "words", "cause", "cure"]
    assert found["brokers"]["cause"] == "no broker runs there, or the network to it is cut"


def test_the_text_has_cause_and_cure_below_each_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "cluster", "--brokers", NOBODY]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "cluster"
    assert lines[1].startswith("  problem  brokers: no Kafka broker answers")
    assert lines[2] == "           cause: no broker runs there, or the network to it is cut"
    assert lines[3].startswith("           cure: start the brokers")
    assert lines[-1] == "1 problem"


def test_a_port_in_use_and_one_of_another_machine_are_told_apart() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        assert machine_checks._port("kafka", "127.0.0.1", taken.getsockname()[1]).level is Level.NOTE
    assert machine_checks._port("kafka", "192.0.2.1", 9092).level is Level.PROBLEM
    config = load_config({"node.id": "1", "kafka.port": "9", "admin.port": "10"})
    assert [finding.what for finding in machine_checks._ports(config)] == ["kafka port", "admin port"]


def test_a_folder_that_cannot_be_written_to_is_a_problem() -> None:
    found = machine_checks._sync_time(Path("/proc"))
    assert found.level is Level.PROBLEM
    assert "cannot be written to" in found.words


def test_memory_is_no_place_for_data() -> None:
    (found,) = machine_checks._filesystem(Path("/dev/shm"))
    assert (found.level, found.cure) == (Level.WARNING, "set data.dir to a folder on a disk")


def test_few_copies_are_warned_of_where_they_matter() -> None:
    one, two, three = ({"t": (partition(0, 1, *range(1, count + 1)),)} for count in (1, 2, 3))
    assert wrong("Too few replicas", cluster(1, **one)) == []
    assert levels(wrong("Too few replicas", cluster(3, **one, is_raftka=False))) == [Level.WARNING]
    assert wrong("Too few replicas", cluster(3, **two, is_raftka=False)) == []
    (found,) = wrong("Too few replicas", cluster(3, a=two["t"], b=three["t"]))
    assert found.words == "two replicas, and writes need both: a"
    (found,) = wrong("Too few replicas", cluster(2))
    assert found.cure.startswith("run three: ")
    assert wrong("Too few replicas", cluster(2, lost=(2,))) == [], "that one is missing is said elsewhere"


def test_a_broker_that_leads_nearly_everything_is_noted() -> None:
    crowded = tuple(partition(number, 1 if number else 2, 1, 2, 3) for number in range(12))
    even = tuple(partition(number, 1 + number % 3, 1, 2, 3) for number in range(12))
    assert levels(wrong("Unbalanced leaders", cluster(3, t=crowded))) == [Level.NOTE]
    assert wrong("Unbalanced leaders", cluster(3, t=even)) == []
    assert wrong("Unbalanced leaders", cluster(3, t=crowded[:11])) == [], "too few to speak of"
    assert "balance" not in {each.what for each in judge(cluster(3, t=crowded[:11]))}


def test_brokers_that_differ_are_warned_of_unless_they_must() -> None:
    own = ("node.id", "kafka.port", "data.dir", "advertised.listeners", "broker.rack", "admin.advertised.listener")
    brokers = tuple(
        BrokerPicture(node, configs=dict.fromkeys(own, str(node)) | {"retention.ms": "5" if node == 3 else "7"})
        for node in (1, 2, 3)
    )
    (found,) = wrong("Different configurations", Picture(brokers=brokers))
    assert found.words == "brokers differ in retention.ms: 7 on 1,2, 5 on 3"
    assert [each.level for each in judge(Picture(brokers=brokers[:2])) if each.what == "config"] == [Level.OK]


def test_a_broker_with_a_value_that_was_set_on_it_alone_is_not_warned_of() -> None:
    own = frozenset({"retention.ms"})
    one, two, three = (
        BrokerPicture(node, configs={"retention.ms": value, "segment.bytes": "9"})
        for node, value in ((1, "7"), (2, "7"), (3, "5"))
    )
    brokers = (one, two, replace(three, own_configs=own))
    (found,) = [each for each in judge(Picture(brokers=brokers)) if each.what == "config"]
    assert (found.level, found.words) == (
        Level.OK,
        "the same for all brokers, but for what was set on single ones: retention.ms on 3",
    )
    # The files of the other two differ all the same.
    brokers = (one, replace(two, configs={"retention.ms": "8"}), replace(three, own_configs=own))
    (found,) = wrong("Different configurations", Picture(brokers=brokers))
    assert found.words == "brokers differ in retention.ms: 7 on 1, 8 on 2"


def test_missing_brokers_leaders_and_replicas_are_problems() -> None:
    offline = tuple(PartitionPicture("t", number, None, (2, 3)) for number in range(7))
    found = {each.what: each for each in judge(replace(cluster(3, lost=(3,), t=offline), silent=("h9:9092",)))}
    assert found["brokers"].words == "broker 3 at h3:9092 does not answer, nobody listens at h9:9092"
    assert found["leaders"].words == "no leader for t-0, t-1, t-2, t-3, t-4 and 2 more: no reads and no writes"
    assert "(they are on 2, 3)" in found["leaders"].cure


def test_a_configuration_has_a_row_for_each_value() -> None:
    rows = merged({2: [config("a", "1"), config("b", "2")], 1: [config("a", "1"), config("b", "1")]})
    assert [(row["key"], row["value"], row["nodes"]) for row in rows] == [
        ("a", "1", [1, 2]),
        ("b", "1", [1]),
        ("b", "2", [2]),
    ]


def test_a_histogram_has_a_row_for_each_doubling_without_holes() -> None:
    latencies = LatencyHistogram()
    other = LatencyHistogram()
    for milliseconds in (1, 1, 9):
        other.add(milliseconds * 1_000_000)
    latencies.update(other)
    assert (latencies.count, latencies.largest) == (3, 9_000_000)
    rows = latencies.doublings()
    assert [count for _, _, count in rows] == [2, 0, 0, 0, 1]
    assert all(math.isclose(high, 2 * low) for low, high, _ in rows)
    lines = histogram_lines(latencies)
    assert [line.count("#") for line in lines] == [40, 0, 0, 0, 20]
    assert lines[0].endswith("66.67%")
    assert histogram_lines(LatencyHistogram()) == []


def test_a_group_may_be_changed_only_when_nobody_is_in_it() -> None:
    consumer = GroupMember("m", "", "client", "/h", [("t", 0)])
    for state, members in (("Stable", [consumer]), ("PreparingRebalance", []), ("Empty", [consumer])):
        with pytest.raises(KafkaClientError, match=f"group g is in use .{state}"):
            GroupInfo("g", state, 1, "range", members).check_empty()
    for state in ("Empty", "Dead"):
        GroupInfo("g", state, 1, "", []).check_empty()
