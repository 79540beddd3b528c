"""`raftka generate`: units, images and manifests say what a broker needs, and bad input gets one line."""

import os
import re
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from raftka.cli.generate import COMMANDS
from raftka.cli.root import run
from raftka.config import load_config
from raftka.deploy.containerfile import USER_ID

IMAGE = "registry.example.com/raftka:0.1.0"
KUBERNETES = f"kubernetes --image {IMAGE}"


def generated(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["generate", *shlex.split(command)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    return shown.out


def settings(unit: str, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def manifests(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(text)}


def variables(stateful_set: dict[str, Any]) -> dict[str, str]:
    """Return the variables of the broker, as they are in the first pod."""
    (broker,) = stateful_set["spec"]["template"]["spec"]["containers"]
    name = stateful_set["metadata"]["name"]
    fields = {
        "metadata.name": f"{name}-1",
        "status.podIP": "10.1.2.3",
        "metadata.labels['apps.kubernetes.io/pod-index']": "1",
    }
    found: dict[str, str] = {}
    for each in broker["env"]:
        value = each.get("value") or fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        # Only variables above it are known, as in Kubernetes.
        found[each["name"]] = re.sub(
            r"\$\$|\$\((\w+)\)", lambda match: "$" if match[0] == "$$" else found[match[1]], value
        )
    return found


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_a_command_of_generate_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", *command.split(), "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: raftka generate")


def test_every_command_of_generate_is_where_the_table_says() -> None:
    for name, command in COMMANDS.items():
        assert command.load().name == name
        assert command.summary.endswith(".")


def test_a_unit_waits_for_readiness_watches_the_loop_and_does_not_repeat_a_refusal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unit = generated("systemd --node-id 2 --data-dir /srv/kafka/data/ --user kafka", capsys)
    assert settings(unit, "Type") == ["notify"]
    assert settings(unit, "NotifyAccess") == ["main"]
    assert settings(unit, "WatchdogSec") == ["90s"]
    assert settings(unit, "TimeoutStartSec") == ["infinity"]
    assert settings(unit, "Restart") == ["on-failure"]
    assert settings(unit, "RestartPreventExitStatus") == ["78"]
    assert settings(unit, "RequiresMountsFor") == ["/srv/kafka/data"]
    assert settings(unit, "ReadWritePaths") == ["-/srv/kafka/data"]
    assert settings(unit, "LimitNOFILE") == ["65536"]
    assert settings(unit, "User") == settings(unit, "Group") == ["kafka"]
    (command,) = settings(unit, "ExecStart")
    assert command.split() == [
        *("/opt/raftka/bin/raftka", "start", "--config", "/etc/raftka/broker.toml", "--node-id", "2"),
        *("--data-dir", "/srv/kafka/data", "--no-data-dir-create"),
    ]
    assert settings(unit, "IPAddressDeny") == []


def test_a_unit_without_a_node_id_takes_that_of_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = settings(generated("systemd", capsys), "ExecStart")
    assert "--node-id" not in command


def test_a_unit_lets_in_the_networks_that_are_allowed_and_loopback(capsys: pytest.CaptureFixture[str]) -> None:
    unit = generated("systemd --allow 10.0.0.0/24 --allow fd00::/8 --allow 192.168.1.7", capsys)
    assert settings(unit, "IPAddressDeny") == ["any"]
    assert settings(unit, "IPAddressAllow") == ["localhost 10.0.0.0/24 fd00::/8 192.168.1.7/32"]


def test_a_unit_takes_from_a_broker_what_it_does_not_need(capsys: pytest.CaptureFixture[str]) -> None:
    unit = generated("systemd", capsys)
    switches = [
        *("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "PrivateUsers", "PrivateIPC", "ProtectHome"),
        *("ProtectClock", "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs"),
        *("ProtectKernelModules", "ProtectKernelTunables", "LockPersonality", "MemoryDenyWriteExecute"),
        *("RemoveIPC", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID"),
    ]
    wanted = {name: ["yes"] for name in switches}
    wanted |= {"ProtectSystem": ["strict"], "DevicePolicy": ["closed"], "UMask": ["0077"], "KeyringMode": ["private"]}
    wanted |= {"ProtectProc": ["invisible"], "ProcSubset": ["pid"], "SystemCallArchitectures": ["native"]}
    wanted |= {"CapabilityBoundingSet": [""], "AmbientCapabilities": [""]}
    wanted |= {"RestrictAddressFamilies": ["AF_INET AF_INET6 AF_UNIX"]}
    wanted |= {"SystemCallFilter": ["@system-service", "~@privileged @resources"]}
    # Each once: a second line would win over the first.
    assert {name: settings(unit, name) for name in wanted} == wanted


@pytest.mark.parametrize(
    "image",
    [
        *("raftka:2", "x:1", "raftka:0.1.0", "registry:5000/raftka:2", "r.example/a/b:2"),
        *(f"raftka@sha256:{'0' * 64}", f"registry:5000/raftka:2@sha256:{'0' * 64}"),
    ],
)
def test_an_image_is_named_as_registries_name_it(image: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = manifests(generated(f"kubernetes --image {image}", capsys))
    (broker,) = found["StatefulSet", "raftka"]["spec"]["template"]["spec"]["containers"]
    assert broker["image"] == image


def test_the_least_pod_is_one_that_a_broker_fits_in(capsys: pytest.CaptureFixture[str]) -> None:
    generated(f"{KUBERNETES} --memory 128Mi --storage 384Mi", capsys)
    generated(f"{KUBERNETES} --storage 129Mi -c disk.reserve.bytes=0", capsys)


def test_a_prometheus_of_another_namespace_reaches_the_admin_port_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    alone = manifests(generated(KUBERNETES, capsys))["NetworkPolicy", "raftka"]["spec"]["ingress"]
    rules = manifests(generated(f"{KUBERNETES} --metrics-namespace monitoring", capsys))
    ingress = rules["NetworkPolicy", "raftka"]["spec"]["ingress"]
    assert ingress[:-1] == alone
    assert ingress[-1] == {
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "ports": [{"port": 9644}],
    }


def test_an_image_has_two_stages_a_user_and_a_health_check(capsys: pytest.CaptureFixture[str]) -> None:
    text = generated("containerfile --base registry.example.com:5000/python:3.12 --admin-port 9000", capsys)
    instructions = [line.split()[0] for line in text.splitlines() if re.match(r"[A-Z]+ ", line)]
    assert [each for each in instructions if each == "FROM"] == ["FROM"] * 2
    stage = text.split("\nFROM ")[2]
    assert stage.startswith("registry.example.com:5000/python:3.12\n")
    assert f"\nUSER {USER_ID}:{USER_ID}\n" in stage
    assert "\nSTOPSIGNAL SIGTERM\n" in stage
    assert "http://127.0.0.1:9000/v1/status/live" in stage
    assert 'ENTRYPOINT ["/opt/raftka/bin/raftka"]' in stage
    assert 'CMD ["start", "--no-data-dir-create"]' in stage
    # What the last stage has comes from the first, but for the user: no compiler, no pip.
    assert "pip" not in stage


def test_manifests_have_probes_a_budget_and_one_broker_per_machine(capsys: pytest.CaptureFixture[str]) -> None:
    found = manifests(generated(KUBERNETES, capsys))
    assert {kind for kind, _ in found} == {"Service", "PodDisruptionBudget", "NetworkPolicy", "StatefulSet"}
    assert found["PodDisruptionBudget", "raftka"]["spec"]["maxUnavailable"] == 1
    headless = found["Service", "raftka"]["spec"]
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    spec = found["StatefulSet", "raftka"]["spec"]
    assert (spec["serviceName"], spec["podManagementPolicy"], spec["replicas"]) == ("raftka", "Parallel", 3)
    assert spec["ordinals"] == {"start": 1}
    pod = spec["template"]["spec"]
    (broker,) = pod["containers"]
    assert broker["livenessProbe"]["httpGet"] == {"path": "/v1/status/live", "port": "admin"}
    assert broker["startupProbe"]["httpGet"] == {"path": "/v1/status/live", "port": "admin"}
    assert broker["readinessProbe"]["httpGet"] == {"path": "/v1/status/ready", "port": "admin"}
    # Longer than a broker without its loop needs to end by itself, with stacks.
    assert broker["livenessProbe"]["periodSeconds"] * broker["livenessProbe"]["failureThreshold"] > 60
    assert pod["terminationGracePeriodSeconds"] > 60
    assert pod["enableServiceLinks"] is False
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"] == spec["selector"]["matchLabels"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == USER_ID
    for each in (broker, *pod["initContainers"]):
        assert each["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
    assert broker["args"] == ["start", "--no-data-dir-create"]
    (claim,) = spec["volumeClaimTemplates"]
    assert claim["spec"] == {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "100Gi"}}}
    assert pod["volumes"][0]["secret"]["defaultMode"] == 0o440


def test_every_selector_of_the_manifests_finds_the_brokers(capsys: pytest.CaptureFixture[str]) -> None:
    found = manifests(generated(f"{KUBERNETES} --name orders", capsys))
    labels = found["StatefulSet", "orders"]["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/instance"] == "orders"
    selectors = [
        found["Service", "orders"]["spec"]["selector"],
        found["Service", "orders-bootstrap"]["spec"]["selector"],
        found["PodDisruptionBudget", "orders"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy", "orders"]["spec"]["podSelector"]["matchLabels"],
        found["StatefulSet", "orders"]["spec"]["selector"]["matchLabels"],
    ]
    assert selectors == [labels] * 5


def test_the_variables_of_the_manifests_are_a_configuration_that_a_broker_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = manifests(
        generated(f"{KUBERNETES} --replicas 5 --namespace shop -c num.partitions=6 -c log.level=DEBUG", capsys)
    )
    config = load_config(environment=variables(found["StatefulSet", "raftka"]))
    host = "raftka-1.raftka.shop.svc.cluster.local"
    assert (config.node_id, config.kafka_advertised_address, config.kafka_address) == (1, host, "10.1.2.3")
    assert [seed.node_id for seed in config.seeds] == [1, 2, 3, 4, 5]
    assert config.seeds[0].host == host
    assert (config.num_partitions, config.log_level) == (6, "DEBUG")
    pod = found["StatefulSet", "raftka"]["spec"]["template"]["spec"]
    (init,) = pod["initContainers"]
    assert init["command"][-1] == config.data_dir
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert config.data_dir.startswith(mounts["data"] + "/")
    assert config.cluster_secret_file == f"{mounts['secret']}/secret"


def test_a_value_with_a_dollar_or_quotes_reaches_the_broker_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    value = '$(POD_IP) "é" $$: #'
    found = manifests(generated(f"{KUBERNETES} -c {shlex.quote('admin.allowed.hosts=a.example,b')}", capsys))
    assert load_config(environment=variables(found["StatefulSet", "raftka"])).admin_allowed_hosts == ("a.example", "b")
    # No option takes such a text today; the rule does not depend on that.
    from raftka.deploy.kubernetes import _variable

    line = _variable("RAFTKA_X", value.replace("$", "$$"))
    stateful_set = {
        "metadata": {"name": "raftka"},
        "spec": {"template": {"spec": {"containers": [{"env": yaml.safe_load(line)}]}}},
    }
    assert variables(stateful_set)["RAFTKA_X"] == value


def test_one_broker_of_a_cluster_prefers_another_machine_if_that_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    text = generated(
        f"{KUBERNETES} --anti-affinity preferred --storage-class fast.example --memory 4Gi --cpu 500m", capsys
    )
    spec = manifests(text)["StatefulSet", "raftka"]["spec"]
    pod = spec["template"]["spec"]
    (preferred,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["weight"] == 100
    assert preferred["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert spec["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast.example"
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "4Gi"},
        "limits": {"memory": "4Gi"},
    }


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("systemd --node-id -1", "must be at least 0"),
        ("systemd --node-id one", "must be an integer"),
        ("systemd --data-dir data", "'data' is not an absolute path"),
        ("systemd --data-dir /", "not as / alone"),
        ("systemd --data-dir /srv/../etc", "without //, . and .."),
        ("systemd --data-dir '/srv/my data'", "only letters, digits"),
        ("systemd --data-dir /srv/100%", "only letters, digits"),
        ("systemd --data-dir '/srv/a\nExecStartPre=/bin/true'", "only letters, digits"),
        ("systemd --data-dir /tmp/raftka", "the unit hides /tmp from the broker"),
        ("systemd --data-dir /home", "the unit hides /home from the broker"),
        ("systemd --config /run/broker.toml", "the unit hides /run from the broker"),
        ("systemd --executable raftka", "is not an absolute path"),
        ("systemd --user root", "a broker does not need root"),
        ("systemd --user 'me too'", "is no name of a user"),
        ("systemd --allow 10.0.0.300/24", "is no network, such as 10.0.0.0/24"),
        ("systemd --allow 10.0.0.1/24", "has host bits set"),
        ("systemd --force", "--force: there is no file to replace without --out"),
        ("systemd --replicas 3", "no such option"),
        ("containerfile --base python", "name a version"),
        ("containerfile --base python:latest", "name a version"),
        ("containerfile --base 'python:3.13 AS x'", "is no reference to an image"),
        ("containerfile --admin-port 0", "must be at least 1"),
        ("containerfile --admin-port 65536", "must be at most 65535"),
        ("kubernetes", "Missing option '--image'"),
        ("kubernetes --image raftka", "name a version"),
        ("kubernetes --image 'raftka:1\n'", "is no reference to an image"),
        ("kubernetes --image registry:5000/raftka", "name a version"),
        (f"{KUBERNETES} --name 1abc", "it must begin with a small letter"),
        (f"{KUBERNETES} --metrics-namespace Monitoring", "is no label of DNS"),
        (f"{KUBERNETES} --memory 127Mi", "--memory 127Mi: a broker needs at least 128Mi"),
        (f"{KUBERNETES} --storage 1Mi", "--storage 1Mi: at least 402653184 bytes are needed"),
        (f"{KUBERNETES} --storage 1Gi -c disk.reserve.bytes=1073741824", "of disk.reserve.bytes (1073741824)"),
        (f"{KUBERNETES} -c log.retention.ms=abc", "raftka: -c log.retention.ms = 'abc': must be"),
        (f"{KUBERNETES} --replicas 0", "must be at least 1"),
        (f"{KUBERNETES} --replicas 16", "must be at most 15"),
        (f"{KUBERNETES} --name Raftka", "is no label of DNS"),
        (f"{KUBERNETES} --name {'x' * 41}", "at most 40"),
        (f"{KUBERNETES} --namespace a.b", "is no label of DNS"),
        (f"{KUBERNETES} --namespace -a", "is no label of DNS"),
        (f"{KUBERNETES} --cluster-domain cluster..local", "is no name of DNS"),
        (f"{KUBERNETES} --storage 100", "is no size"),
        (f"{KUBERNETES} --storage 0Gi", "is no size"),
        (f"{KUBERNETES} --storage-class 'a b'", "is no name of DNS"),
        (f"{KUBERNETES} --memory 1G", "is no size"),
        (f"{KUBERNETES} --cpu 0.5", "is no number of CPUs"),
        (f"{KUBERNETES} --anti-affinity never", "is not one of"),
        (f"{KUBERNETES} -c num.partitions", "must be KEY=VALUE"),
        (f"{KUBERNETES} -c num.partition=1", "did you mean num.partitions?"),
        (f"{KUBERNETES} -c num.partitions=0", "num.partitions"),
        (f"{KUBERNETES} -c num.partitions=1 -c num.partitions=2", "num.partitions is set twice"),
        (f"{KUBERNETES} -c seeds=1@a:1", "the manifests set this option themselves"),
        (f"{KUBERNETES} -c node.id=1", "the manifests set this option themselves"),
        (f"{KUBERNETES} -c default.replication.factor=5", "there are only 3 brokers"),
        (f"{KUBERNETES} -c raft.heartbeat.interval.ms=60000", "must be below"),
        ("helm", "no such command 'helm'"),
    ],
)
def test_bad_input_is_one_line_that_names_it_and_prints_no_file(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", *shlex.split(command)]) == 64
    shown = capsys.readouterr()
    assert shown.out == ""
    complaint = shown.err.splitlines()[-1]
    assert complaint.startswith("raftka: ")
    assert words in complaint


def test_a_file_is_written_whole_and_replaced_only_if_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "raftka.service"
    assert generated(f"systemd --out {out}", capsys) == ""
    first = out.read_text()
    assert first == generated("systemd", capsys)
    assert run(["generate", "systemd", "--user", "kafka", "--out", str(out)]) == 1
    assert capsys.readouterr().err == f"raftka: --out {out}: the file exists; --force replaces it\n"
    assert out.read_text() == first
    assert generated(f"systemd --user kafka --out {out} --force", capsys) == ""
    assert settings(out.read_text(), "User") == ["kafka"]
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(("name", "words"), [("missing/unit", "No such file"), ("file/unit", "Not a directory")])
def test_a_file_that_cannot_be_written_is_one_line(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert run(["generate", "systemd", "--out", str(tmp_path / name)]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"raftka: --out {tmp_path / name}: cannot be written: {words}")
    assert shown.err.count("\n") == 1


@pytest.mark.parametrize("command", ["systemd", "containerfile", KUBERNETES, "grafana", "alerts"])
def test_every_command_of_generate_writes_a_file(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "it"
    out.write_text("old")
    assert generated(f"{command} --out {out} --force", capsys) == ""
    assert out.read_text() == generated(command, capsys) != ""


def make_device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes devices")
    # Of the kind of /dev/full.
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 7))


@pytest.mark.parametrize("force", ["", "--force"])
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (make_device, "it is no regular file, and is not replaced"),
        (os.mkfifo, "it is no regular file, and is not replaced"),
        (lambda path: path.symlink_to("file"), "it is a symbolic link, which is not replaced"),
        (lambda path: path.symlink_to("missing"), "it is a symbolic link, which is not replaced"),
    ],
    ids=["device", "pipe", "link", "link to nothing"],
)
def test_what_is_no_regular_file_is_never_replaced(
    make: Callable[[Path], object], words: str, force: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("mine")
    out = tmp_path / "out"
    make(out)
    before = out.lstat()
    assert run(["generate", "systemd", "--out", str(out), *force.split()]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"raftka: --out {out}: {words}")
    assert shown.err.count("\n") == 1
    assert (out.lstat().st_mode, out.lstat().st_ino) == (before.st_mode, before.st_ino)
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["file", "out"]


@pytest.mark.parametrize(
    "command", ["generate systemd", "generate alerts --force", "debug bundle --brokers 127.0.0.1:1"]
)
@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("", "no file is named"),
        (".", ". is a directory"),
        ("..", ".. is a directory"),
        ("/", "/ is a directory"),
        ("missing/", "missing/ is a directory"),
    ],
)
def test_an_out_that_names_no_file_is_one_line(
    command: str,
    out: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*command.split(), "--out", out]) == 64
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert f"'--out': {words}" in complaint
    assert list(tmp_path.iterdir()) == []
