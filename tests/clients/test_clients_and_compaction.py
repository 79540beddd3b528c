"""Every client on a compacted topic: newest values, gaps in the offsets, an offset that is gone, a record without a key.

These are no tasks of `python -m tests.clients.sent`: only brokers with compaction can be asked for them.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing

import pytest

from tests.clients.all_clients import CLIENTS
from tests.clients.client import Client, Member, Record
from tests.clients.referee import OFFSETS_PARTITIONS, Referee
from tests.ecosystem.compacted_records import KeyedRecord, is_compacted, read_all
from tests.process.broker_processes import BrokerCluster, ClusterMaker, eventually

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

_MIB = 1024 * 1024
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": _MIB,
    "min.cleanable.dirty.ratio": 0.01,
    "delete.retention.ms": 0,
}
_KEYS = 20
# A round is longer than a segment; two of them are, where they are compressed.
_ROUND_RECORDS = 700
_VALUE_CHARACTERS = 2_000
# A client may send all records of a call in one batch.
_CALL_RECORDS = 200
_COMPACTION_SECONDS = 60.0
# How clients name INVALID_RECORD: by the error, its number, or what it means.
_REFUSED = r"(?i)invalid_?record|failed to validate record|failed the validation|without a? ?key"
# It does not have this error, and calls it what it calls all such errors.
_REFUSED_BY_CLIENT = {"aiokafka": "UnknownError"}


@pytest.fixture(scope="module")
def compacting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    """Three brokers that have compaction, and look for logs to compact all the time."""
    maker = ClusterMaker(tmp_path_factory.mktemp("compacting"))
    quick = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": OFFSETS_PARTITIONS}
    cleaner = {"log.cleaner.backoff.ms": 100, "log.cleaner.io.max.bytes.per.second": 0}
    try:
        cluster = maker(3, **quick, **cleaner)
        cluster.start()
        yield cluster
    finally:
        maker.stop()


@pytest.fixture(
    scope="module", params=[pytest.param(each, id=each, marks=kind.marks) for each, kind in CLIENTS.items()]
)
def user(
    compacting: BrokerCluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Client]:
    """Return each client, under another name than `client`: so these tests are no tasks."""
    user = CLIENTS[request.param].make(compacting.bootstrap, tmp_path_factory.mktemp("user"))
    try:
        yield user
    finally:
        user.close()


class _Table:
    """A compacted topic that one client writes to; `sent` has every record at its offset."""

    def __init__(self, user: Client, cluster: BrokerCluster, topic: str) -> None:
        self.topic = topic
        self.sent: list[Record] = []
        self._user = user
        self._bootstrap = cluster.bootstrap
        self._rng = random.Random(topic)
        Referee(cluster).create_topic(topic, **_COMPACTED)

    def overwrite(self, keys: range, codec: str = "none") -> None:
        """Write a round of values, which no codec makes much smaller, to these keys in turn."""
        values = (self._rng.randbytes(_VALUE_CHARACTERS // 2).hex() for _ in range(_ROUND_RECORDS))
        self._write([Record(f"key-{keys[number % len(keys)]}", value) for number, value in enumerate(values)], codec)

    def delete(self, keys: range) -> None:
        """Write a tombstone for each key."""
        self._write([Record(f"key-{number}", None) for number in keys], "none")

    def _write(self, records: Sequence[Record], codec: str) -> None:
        for begin in range(0, len(records), _CALL_RECORDS):
            call = records[begin : begin + _CALL_RECORDS]
            offsets = self._user.produce(self.topic, call, codec=codec)
            assert offsets == list(range(len(self.sent), len(self.sent) + len(call)))
            self.sent += call

    @property
    def live(self) -> dict[str | None, str]:
        """The newest value of each key that is not deleted."""
        return _folded(self.sent)

    def wait_compacted(self, superseded: int) -> None:
        """Wait until passes have removed so many records from the beginning of the topic."""
        left: list[KeyedRecord] = []

        def is_done() -> bool:
            left[:] = read_all(self._bootstrap, self.topic)
            return is_compacted(left, superseded) and left[0].offset >= superseded

        eventually(lambda: f"a pass, {len(left)} records are left", is_done, _COMPACTION_SECONDS)

    def check(self, read: Sequence[Record], first: int) -> None:
        """What was read from an offset on has the newest values, and nothing that was not sent."""
        offsets = [record.offset for record in read]
        assert offsets == sorted(set(offsets))
        assert offsets[0] >= first
        assert [record.content for record in read] == [self.sent[offset].content for offset in offsets]
        assert _folded(read) == self.live

    def has_ended(self, member: Member) -> bool:
        """Whether a member has read the last record."""
        return [record.offset for record in member.look().records[-1:]] == [len(self.sent) - 1]


def _folded(records: Sequence[Record]) -> dict[str | None, str]:
    newest = {record.key: record.value for record in records}
    return {key: value for key, value in newest.items() if value is not None}


def test_a_client_reads_the_newest_values_and_resumes_at_an_offset_that_is_gone(
    user: Client, compacting: BrokerCluster
) -> None:
    referee, topic = Referee(compacting), f"{user.name}.compacted"
    table = _Table(user, compacting, topic)
    table.overwrite(range(_KEYS))
    with closing(user.join(topic, topic)) as member:
        eventually("the first round", lambda: table.has_ended(member))
        member.commit()
    committed = len(table.sent)
    assert referee.committed(topic, topic) == {0: committed}
    table.overwrite(range(_KEYS))
    # No record has the committed offset any more, nor one of the next 700.
    superseded = len(table.sent)
    table.delete(range(4))
    for _ in range(2):
        table.overwrite(range(4, _KEYS), user.abilities.codecs[-1])
    table.wait_compacted(superseded)

    with closing(user.join(f"{topic}.new", topic)) as member:
        eventually("everything that is left", lambda: table.has_ended(member))
        table.check(member.look().records, 0)
    with closing(user.join(topic, topic)) as member:
        eventually("everything behind the commit", lambda: table.has_ended(member))
        table.check(member.look().records, committed)
        member.commit()
    assert referee.committed(topic, topic) == {0: len(table.sent)}
    # In the middle of what is gone.
    found = user.fetch(topic, committed + 100, 3)
    assert all(record.offset >= superseded for record in found)
    assert [record.content for record in found] == [table.sent[record.offset].content for record in found]


def test_a_client_reports_that_a_record_without_a_key_is_refused_and_writes_on(
    user: Client, compacting: BrokerCluster
) -> None:
    topic = f"{user.name}.keyed"
    Referee(compacting).create_topic(topic, **_COMPACTED)
    assert user.produce(topic, [Record("key", "first")]) == [0]
    with pytest.raises(Exception, match=_REFUSED_BY_CLIENT.get(user.name, _REFUSED)):
        user.produce(topic, [Record(None, "without a place in a table")])
    assert user.produce(topic, [Record("key", "second")]) == [1]
    assert [record.value for record in user.fetch(topic, 0, 2)] == ["first", "second"]
