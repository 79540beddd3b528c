"""A systemd unit for one broker of a machine.

The unit gives the broker one directory to write and nothing else of the machine. `systemd-analyze security` rates what
is left (tests/deploy). systemd 247 or newer knows all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

# The unit hides these, or they do not outlive a restart of the machine or of the service.
_HIDDEN = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/proc", "/sys", "/dev")
# The broker ends by itself, with the stacks of its threads, when its loop has stood still for 60 s: it comes first.
WATCHDOG_SECONDS = 90
# A broker whose stop takes longer than 60 s ends by itself.
STOP_SECONDS = 90
OPEN_FILES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRequest:
    """What a unit is for; paths and names as `raftka.deploy.checked` returns them.

    Attributes:
        node_id: None: the configuration file says it.
        config: The configuration file.
        data_dir: The data directory, which exists before the broker starts.
        user: Who runs the broker; a group of the same name exists.
        executable: `raftka` on that machine.
        networks: From where clients and brokers connect, as CIDR; empty: from anywhere.
    """

    node_id: int | None
    config: str
    data_dir: str
    user: str
    executable: str
    networks: Sequence[str] = ()


def visible_path(text: str) -> str:
    """Return a path that a broker of the unit can use.

    Raises:
        ValueError: The unit hides it, or gives the broker an empty directory in its place.
    """
    for hidden in _HIDDEN:
        if text == hidden or text.startswith(f"{hidden}/"):
            raise ValueError(f"{text}: the unit hides {hidden} from the broker; use a path such as /var/lib/raftka")
    return text


def render_unit(request: UnitRequest, version: str) -> str:
    """Return the unit."""
    node = "" if request.node_id is None else f" --node-id {request.node_id}"
    command = f"{request.executable} start --config {request.config}{node} --data-dir {request.data_dir}"
    return _UNIT.format(
        version=version,
        command=f"{command} --no-data-dir-create",
        data_dir=request.data_dir,
        user=request.user,
        watchdog=WATCHDOG_SECONDS,
        stop=STOP_SECONDS,
        files=OPEN_FILES,
        networks=_networks(request.networks),
    )


def _networks(networks: Sequence[str]) -> str:
    if not networks:
        return ""
    allowed = " ".join(["localhost", *networks])
    return (
        f"# Packets of other addresses reach no listener of the broker.\nIPAddressDeny=any\nIPAddressAllow={allowed}\n"
    )


_UNIT = """\
# A Raftka broker, written by `raftka generate systemd` of version {version}.
# docs/operations/install.md says how to install it.

[Unit]
Description=Raftka broker
Wants=network-online.target
After=network-online.target time-sync.target
# Without its disk the broker does not start.
RequiresMountsFor={data_dir}
# Restarts go on for as long as they are needed.
StartLimitIntervalSec=0

[Service]
# The broker says when it serves clients. Before that it may wait for the other brokers, for as long as they take:
# `systemctl status` shows what it waits for.
Type=notify
NotifyAccess=main
TimeoutStartSec=infinity
ExecStart={command}
# A broker whose event loop hangs sends no sign of life.
WatchdogSec={watchdog}s
Restart=on-failure
RestartSec=5s
# 78: the broker refuses to start, and would refuse again. `systemctl status` says why.
RestartPreventExitStatus=78
# SIGTERM: the broker transfers its leaderships first.
KillMode=mixed
TimeoutStopSec={stop}s
LimitNOFILE={files}

User={user}
Group={user}
UMask=0077
# The only directory that the broker may write. `-`: if it is missing, the broker itself says so.
ProtectSystem=strict
ReadWritePaths=-{data_dir}
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
PrivateUsers=yes
PrivateIPC=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProcSubset=pid
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
LockPersonality=yes
MemoryDenyWriteExecute=yes
RemoveIPC=yes
KeyringMode=private
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
{networks}
[Install]
WantedBy=multi-user.target
"""
