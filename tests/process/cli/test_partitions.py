"""`raftka partition list` and `elect-preferred` beside brokers that are killed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.broker_processes import eventually
from tests.process.command_line import DevFolder, start_detached

pytestmark = pytest.mark.process


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[DevFolder]:
    """Three brokers, of which the test kills one."""
    folder = start_detached(tmp_path / "dev", 3)
    try:
        yield folder
    finally:
        folder.dev("stop")


def listed(dev: DevFolder, *topic: str) -> dict[str, dict[str, Any]]:
    """Return the rows by topic; each topic here has one partition."""
    found = json.loads(dev.client("partition", "list", *topic, "-f", "json").stdout)
    return {row["topic"]: row for row in found}


def test_partitions_are_listed_with_what_is_wrong_with_them(dev: DevFolder) -> None:
    dev.client("topic", "create", "alone", "-r", "1", "-p", "1")
    dev.client("topic", "create", "three", "-r", "3", "-p", "1")
    dev.client("topic", "create", "strict", "-r", "3", "-p", "1", "-c", "min.insync.replicas=3")
    dev.client("produce", "three", stdin="one\ntwo\n")
    rows = listed(dev)
    assert {name: (row["status"], row["leo"], row["hw"]) for name, row in rows.items()} == {
        "alone": ("ok", 0, 0),
        "strict": ("ok", 0, 0),
        "three": ("ok", 2, 2),
    }
    leader, replicas = rows["three"]["leader"], ",".join(map(str, rows["three"]["replicas"]))
    assert dev.client("partition", "list", "three").stdout.splitlines() == [
        "TOPIC  PARTITION  LEADER  REPLICAS  IN-SYNC  STATUS  LEO  HW",
        f"three          0       {leader}  {replicas}     1,2,3    ok        2   2",
    ]
    victim = rows["alone"]["leader"]
    dev.dev("kill", str(victim))
    wanted = {"alone": "offline", "strict": "under-min-isr", "three": "under-replicated"}
    eventually("all statuses are known", lambda: {name: each["status"] for name, each in listed(dev).items()} == wanted)
    after = listed(dev)
    assert (after["alone"]["leader"], after["alone"]["leo"], after["alone"]["hw"]) == (-1, None, None)
    assert (after["three"]["leo"], after["three"]["hw"]) == (2, 2)
    assert victim not in after["three"]["in_sync"]
    dev.dev("restart", str(victim))
    eventually("all is well again", lambda: {each["status"] for each in listed(dev).values()} == {"ok"})


def test_the_preferred_replica_leads_after_an_election_and_one_that_is_dead_does_not(dev: DevFolder) -> None:
    dev.client("topic", "create", "orders", "-r", "3", "-p", "1")
    row = listed(dev)["orders"]
    preferred, other = row["replicas"][:2]
    transfer = ("partition", "transfer-leadership", "orders", "0", "--target", str(other))
    would = f"orders-0: leader would be node {other}, is node {row['leader']}\nnothing is changed (--dry-run)\n"
    assert dev.client(*transfer, "--dry-run").stdout == would
    assert listed(dev)["orders"]["leader"] == row["leader"]
    dev.client(*transfer)

    def shown() -> str | None:
        # The new leader hears of the others' positions only after a moment.
        done = dev.run("partition", "elect-preferred", "--all", "--dry-run")
        return done.stdout if done.returncode == 0 else None

    said = eventually("the preferred replica would be elected", shown)
    assert said.splitlines()[0] == f"orders-0: leader would be node {preferred}, is node {other}"
    assert said.splitlines()[-1] == "nothing is changed (--dry-run)"
    assert dev.client(*transfer).stdout == f"orders-0: node {other} leads already\n"

    def elected() -> str | None:
        # The new leader hears of the others' positions only after a moment.
        done = dev.run("partition", "elect-preferred", "orders", "0")
        return done.stdout if done.returncode == 0 else None

    said = eventually("the preferred replica is elected", elected)
    assert said == f"orders-0: leader is node {preferred}, was node {other}\n"
    assert listed(dev)["orders"]["leader"] == preferred
    said = dev.client("partition", "elect-preferred", "orders").stdout
    assert said == f"orders-0: node {preferred}, the preferred replica, leads already\n"
    assert dev.client("partition", "elect-preferred", "--all").stdout == (
        "all partitions are led by their preferred replicas already\n"
    )
    dev.dev("kill", str(preferred))
    eventually("another replica leads", lambda: listed(dev)["orders"]["leader"] not in (-1, preferred))
    refused = dev.client("partition", "elect-preferred", "--all", code=1).stderr
    assert refused.startswith(f"raftka: orders-0: node {preferred} does not lead: the preferred replica, on node ")
