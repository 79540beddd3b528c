"""Tasks: a broker is killed under the client."""

from contextlib import ExitStack, closing

import pytest

from tests.clients.client import Client, values_only
from tests.clients.referee import Referee
from tests.clients.test_client_groups import PARTITIONS, have_read, numbered, share
from tests.process.broker_processes import eventually

pytestmark = pytest.mark.process


class _Writer:
    """Writes rounds of records, as an idempotent producer and as one that is not."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.once: list[str] = []
        self.plain: list[str] = []
        self.acked: dict[int, str] = {}

    @property
    def count(self) -> int:
        return len(self.once) + len(self.plain)

    def write(self) -> None:
        if self._client.abilities.idempotent:
            self.once += self._write("once", len(self.once), idempotent=True)
        self.plain += self._write("plain", len(self.plain), idempotent=False)

    def _write(self, name: str, first: int, *, idempotent: bool) -> list[str]:
        values = [f"{name}-{number:05d}" for number in range(first, first + 30)]
        offsets = self._client.produce(self._topic, values_only(values), acks="all", idempotent=idempotent)
        self.acked |= {offset: value for offset, value in zip(offsets, values, strict=True) if offset >= 0}
        return values


@pytest.mark.asks(uses=("idempotent",))
def test_a_killed_leader_takes_nothing_along_and_leaves_nothing_twice(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic)
    writer = _Writer(client, topic)
    writer.write()
    victim = referee.leader_of(topic)
    killing = referee.killing(victim, lambda: referee.cluster.leader_of(topic, 0, other_than=victim))
    try:
        while not killing.is_replaced():
            writer.write()
        writer.write()
    finally:
        killing.finish()

    found = [str(record.value) for record in referee.read(topic, writer.count)]
    assert [value for value in found if value.startswith("once")] == writer.once
    assert set(found) == {*writer.once, *writer.plain}
    assert {offset: found[offset] for offset in writer.acked} == writer.acked


def test_a_killed_coordinator_takes_no_commit_and_no_member_along(client: Client, referee: Referee, topic: str):
    referee.create_topic(topic, PARTITIONS)
    before, after = numbered("before"), numbered("after")
    referee.fill(topic, before, PARTITIONS)
    with ExitStack() as stack:
        members = [stack.enter_context(closing(client.join(topic, topic))) for _ in range(2)]
        eventually("half of the partitions each", lambda: share(members))
        eventually("what was there before", lambda: have_read(members, before))
        for member in members:
            member.commit()
        victim = referee.coordinator_of(topic)
        killing = referee.killing(victim, lambda: referee.coordinator_of(topic, other_than=victim))
        stack.callback(killing.finish)
        referee.fill(topic, after, PARTITIONS)
        eventually("what came afterwards", lambda: have_read(members, after))
        eventually("another coordinator", killing.is_replaced)
        for member in members:
            member.commit()
    assert referee.committed(topic, topic) == dict.fromkeys(range(PARTITIONS), (len(before) + len(after)) // PARTITIONS)
