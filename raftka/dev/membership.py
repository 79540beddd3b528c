"""Brokers that join a dev cluster, and brokers that leave it, while it runs. The cluster decides; this follows.

A broker is added by its start: it asks the others to let it in. A broker is removed once the cluster has taken it out,
which it does only for an empty one (`raftka broker decommission`). Node ids are not used twice, and what a broker has
left in its folder stays.
"""

import shutil
import signal
from dataclasses import replace

from raftka.admin_client import AdminError, is_permanent, request_json
from raftka.dev.cluster_file import BrokerEntry, ClusterFolder, ClusterState
from raftka.dev.errors import DevError
from raftka.dev.launcher import broker_config, launch, prepare_folder
from raftka.dev.ports import choose_next
from raftka.dev.process_identity import ProcessIdentity
from raftka.dev.supervisor import (
    NODES_MAX,
    READY_SECONDS,
    STOP_SECONDS,
    TOLD,
    exit_text,
    last_words,
    wait_brokers_ready,
)

_FEATURE = "raftka.membership"
_CURE = (
    "an older version has made the cluster: once no broker runs it any more, `raftka cluster features upgrade` lets"
    " brokers join and leave"
)
_VERB_SECONDS = 20.0


def add_broker(folder: ClusterFolder) -> tuple[BrokerEntry, ClusterState, list[str]]:
    """Start one broker more and wait until it serves; returns it, the cluster with it, and what is not well.

    The new process belongs to no supervisor, as one of `operations.restart_broker`.

    Raises:
        DevError: Nothing runs there, or the cluster does not take the broker: it is forgotten again.
    """
    folder.load_existing()
    with folder.locked():
        before = folder.load_existing()
        if not any(broker.is_alive for broker in before.brokers):
            raise DevError(f"nothing runs in {folder.path}: start the cluster (raftka dev), then add a broker")
        if len(before.brokers) >= NODES_MAX:
            raise DevError(f"the cluster has {NODES_MAX} brokers, and that is the most that `raftka dev` runs")
        node_id = before.next_id
        entry = BrokerEntry(node_id, choose_next(node_id, [broker.addresses for broker in before.brokers]))
        state = before.with_broker(entry)
        prepare_folder(folder, state)
        child = launch(folder, entry, broker_config(folder, state, entry), tied=False)
        state = state.with_process(node_id, ProcessIdentity.of(child.pid))
        folder.save(state)
    try:
        reasons = wait_brokers_ready(folder, {entry: child.poll}, READY_SECONDS, None, is_permanent)
    except DevError:
        code = child.poll()
        if code is None:
            raise
        raise DevError(_why_not_added(folder, before, node_id, code)) from None
    return state.broker(node_id), state, reasons


def _why_not_added(folder: ClusterFolder, before: ClusterState, node_id: int, code: int) -> str:
    """Forget a broker that has ended, unless the cluster may have let it in; return what to say of it."""
    log = folder.log_path(node_id)
    said = last_words(log)
    # Whoever was killed has not said why.
    words = said.removeprefix(TOLD) if said.startswith(TOLD) else f"it ended while starting ({exit_text(code)})"
    if folder.has_identity(node_id):
        return f"broker {node_id} has ended: {words}; start it again: raftka dev restart {node_id}"
    with folder.locked():
        state = folder.load_existing()
        others = tuple(broker for broker in state.brokers if broker.node_id != node_id)
        # Its node id was never used.
        folder.save(replace(state, brokers=others, founders=before.founders, last_id=before.last_id))
    if not said.startswith(TOLD):
        return f"broker {node_id} was not added: {words}; its log: {log}"
    # Its first contact was refused: nothing was written there but what `prepare_folder` and the log wrote.
    shutil.rmtree(folder.node_path(node_id), ignore_errors=True)
    return f"broker {node_id} was not added: {words}" + (f"; {_CURE}" if _FEATURE in words else "")


def remove_broker(folder: ClusterFolder, node_id: int) -> tuple[BrokerEntry, ClusterState]:
    """Have the cluster remove an empty broker, stop it and forget it; returns it, and the cluster without it.

    Raises:
        DevError: There is no such broker, the cluster refuses, or no broker answers.
    """
    folder.load_existing()
    with folder.locked():
        state = folder.load_existing()
        broker = state.broker(node_id)
        if len(state.brokers) == 1:
            raise DevError(f"broker {node_id} is the only one: `raftka dev stop` stops the cluster")
        _ask_to_remove(state, node_id)
        old = broker.process
        if old is not None and old.send_signal(signal.SIGTERM) and not old.wait_gone(STOP_SECONDS):
            old.send_signal(signal.SIGKILL)
            old.wait_gone(STOP_SECONDS)
        state = state.without_broker(node_id)
        folder.save(state)
    return broker, state


def _ask_to_remove(state: ClusterState, node_id: int) -> None:
    """Ask the brokers that stay, one after the other, until one has an answer of raft0's leader."""
    told = "no other broker runs"
    for broker in state.brokers:
        if broker.node_id == node_id or not broker.is_alive:
            continue
        try:
            status, body = request_json(
                broker.addresses.admin, f"/v1/brokers/{node_id}/remove", _VERB_SECONDS, method="POST", document={}
            )
        except AdminError as error:
            told = str(error)
            continue
        if status == 200:
            return
        words = str(body.get("message") or body.get("error")) if isinstance(body, dict) else f"HTTP status {status}"
        if status in (429, 503, 504):
            told = words
            continue
        raise DevError(f"broker {node_id} is not removed: {words}" + (f"; {_CURE}" if _FEATURE in words else ""))
    raise DevError(f"broker {node_id} is not removed: {told}")
