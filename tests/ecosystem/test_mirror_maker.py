"""MirrorMaker 2 copies a topic between two clusters both ways and translates offsets, while it and brokers die."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from raftka.kafka import client as kafka_client
from tests.ecosystem.brokers import KINDS, Brokers
from tests.ecosystem.java_process import JavaProcess
from tests.ecosystem.mirrors import (
    NAMES,
    TOPIC,
    Mirrors,
    commit,
    committed,
    copy_of,
    ends,
    mirror_maker,
    other,
    values_from,
)
from tests.needed_tools import needs_tools
from tests.process.broker_processes import eventually

pytestmark = [
    pytest.mark.process,
    pytest.mark.ecosystem,
    pytest.mark.timeout(900),
    needs_tools("java", "mvn"),
]

_TRANSLATED_SECONDS = 90.0


_PAIRS = {
    **{kind: (kind, kind) for kind in KINDS},
    # As somebody does who moves from one to the other: Kafka's own settings of topics are copied.
    "raftka-beside-apache-kafka": ("apache-kafka", "raftka"),
}


@pytest.fixture(params=list(_PAIRS))
def clusters(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, Brokers]]:
    """Two clusters of one kind, or one of each."""
    with ExitStack() as stack:
        found = {}
        for name, kind in zip(NAMES, _PAIRS[request.param], strict=True):
            folder = tmp_path / name
            folder.mkdir()
            found[name] = stack.enter_context(KINDS[kind](folder))
        yield found


@pytest.fixture
def maker(clusters: dict[str, Brokers], tmp_path: Path) -> Iterator[JavaProcess]:
    maker = mirror_maker(clusters, tmp_path)
    try:
        yield maker
    finally:
        maker.kill()


def test_mirror_maker_copies_both_ways_and_translates_offsets_though_it_and_brokers_are_killed(
    clusters: dict[str, Brokers], maker: JavaProcess
) -> None:
    with closing(Mirrors(clusters, maker)) as mirrors:
        mirrors.write_in_transactions()
        maker.start()
        mirrors.wait_topics()
        mirrors.write_and_wait()
        for name in NAMES:
            _check_goes_on_elsewhere(clusters, name, mirrors)
        mirrors.write()
        maker.kill()
        mirrors.write()
        maker.start()
        mirrors.write_and_wait()
        for name in NAMES:
            here, there = clusters[name], clusters[other(name)]
            here.kill_leader(TOPIC, mirrors.write_and_wait)
            there.kill_leader(copy_of(name), mirrors.write_and_wait)
            # The maker's positions are there, and what its group of workers shares.
            there.kill_leader(f"mm2-offsets.{name}.internal", mirrors.write_and_wait)
            there.kill_coordinator(f"{name}-mm2", mirrors.write_and_wait)
        mirrors.check()
        for name in NAMES:
            _check_translated_end(clusters, name)
    for name in NAMES:
        topics = (f"{prefix}.{other(name)}.internal" for prefix in ("mm2-configs", "mm2-offsets", "mm2-status"))
        for topic in (*topics, f"{other(name)}.checkpoints.internal"):
            assert kafka_client.read_topic_config(clusters[name].bootstrap, topic)["cleanup.policy"] == "compact"
        clusters[name].check_passes()


def _check_goes_on_elsewhere(clusters: dict[str, Brokers], name: str, mirrors: Mirrors) -> None:
    """A group that has read all finds at the other cluster what is written later, and nothing else."""
    here, there = clusters[name], clusters[other(name)]
    offsets = ends(here, TOPIC)
    _check_translated_end(clusters, name)
    translated = committed(there, _group(name), copy_of(name))
    # Offsets of the topic count the ends of transactions, and those of the copy do not.
    assert all(0 < theirs < mine for mine, theirs in zip(offsets, translated, strict=True))
    mirrors.write_and_wait()
    assert values_from(there, copy_of(name), translated) == values_from(here, TOPIC, offsets)


def _check_translated_end(clusters: dict[str, Brokers], name: str) -> None:
    """A group that has read all has nothing left at the other cluster."""
    # MirrorMaker does not translate an offset from before the start of its task, unless it is the last.
    here, there = clusters[name], clusters[other(name)]
    commit(here, _group(name), TOPIC, ends(here, TOPIC))
    eventually(
        lambda: f"{name}: offsets {committed(there, _group(name), copy_of(name))}, ends {ends(there, copy_of(name))}",
        lambda: committed(there, _group(name), copy_of(name)) == ends(there, copy_of(name)),
        _TRANSLATED_SECONDS,
    )


def _group(name: str) -> str:
    return f"clerks-of-{name}"
