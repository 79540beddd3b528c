"""Reads partitions that are assigned by hand: no consumer group is needed, and nothing is committed."""

from typing import TYPE_CHECKING

from raftka.cli.exit_codes import CommandError
from raftka.cli.partition_ends import PartitionEnds
from raftka.cli.positions import Anchor, Position
from raftka.cli.progress import QuorumWatch, Stopwatch, leader_problem, silence_problem
from raftka.cli.record_sink import RecordSink
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import NoQuorumError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

POLL_SECONDS = 0.2
# How long a broker may wait for more before it says that there is nothing: a person waits for the end as long.
FETCH_WAIT_MS = 100


class AssignedReader:
    """Reads assigned partitions of one topic into a sink; `is_committed`: what committed transactions have written."""

    def __init__(self, brokers: str, topic: str, sink: RecordSink, *, is_committed: bool = False) -> None:
        self._brokers = brokers
        self._topic = topic
        self._sink = sink
        self._consumer: Consumer = kafka_client.new_consumer(
            brokers,
            enable_partition_eof=True,
            fetch_wait_max_ms=FETCH_WAIT_MS,
            isolation_level=isolation_level(is_committed=is_committed),
        )
        self._assigned: dict[int, TopicPartition] = {}
        self._ends = PartitionEnds(brokers, topic)
        self._idle = Stopwatch()
        self._quorum = QuorumWatch(brokers)
        self._warning = ""

    def assign(self, partitions: list[int], begin: Position, *, is_end_wanted: bool) -> None:
        """Begin to read; `is_end_wanted`: the partitions end for us where they end now.

        Raises:
            CommandError: A partition does not have the offset, or nobody tells.
        """
        ends = self._ends.ask(partitions) if is_end_wanted else {}
        self._assigned = {partition: self._start(partition, begin, ends.get(partition)) for partition in partitions}
        self._ends.unfinished = set(partitions)
        self._consumer.assign(list(self._assigned.values()))

    def run(self, count: int | None, exit_at_end: bool) -> None:
        """Print records until there were `count`, or with `exit_at_end` to the end of each partition.

        Raises:
            CommandError: A partition cannot be read; where an end was asked for, also one that is not read for long.
            NoQuorumError: An end was asked for, and too few brokers answer.
        """
        is_end_wanted = exit_at_end or count is not None
        self._idle.restart()
        while (count is None or self._sink.printed < count) and not (exit_at_end and not self._ends.unfinished):
            message = self._consumer.poll(POLL_SECONDS)
            if message is None:
                # Nothing to do just now.
                self._sink.flush()
                if is_end_wanted:
                    self._quorum.look()
                if self._idle.has_expired:
                    self._look_why(is_end_wanted=is_end_wanted)
                continue
            self._idle.restart()
            error = message.error()
            if error is None:
                self._take(message)
            elif error.name() == "_PARTITION_EOF":
                self._ends.on_nothing_left(partition_number(message))
            else:
                check_passing(error)
        self._sink.flush()

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()

    def _take(self, message: "Message") -> None:
        partition = partition_number(message)
        if not self._ends.admits(partition, kafka_client.delivered_offset(message)):
            # What comes behind the end would only keep us from what the others still have.
            self._consumer.pause([self._assigned[partition]])
            return
        self._sink.print(message)
        if self._sink.is_due:
            self._sink.flush()

    def _start(self, partition: int, begin: Position, end: int | None) -> "TopicPartition":
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

        if begin.anchor is Anchor.START:
            offset = OFFSET_BEGINNING
        elif begin.anchor is Anchor.END:
            offset = OFFSET_END
        elif begin.anchor is Anchor.TIME:
            offset = self._offset_at(partition, begin.value)
        else:
            first, last = self._offsets(partition)
            offset = begin.within(first, last if end is None else end, (self._topic, partition))
        return TopicPartition(self._topic, partition, offset)

    def _offset_at(self, partition: int, timestamp: int) -> int:
        """Return the first offset of that time or later, or librdkafka's mark of the end."""
        from confluent_kafka import KafkaException, TopicPartition

        where = TopicPartition(self._topic, partition, timestamp)
        try:
            (found,) = self._consumer.offsets_for_times([where], timeout=kafka_client.REQUEST_SECONDS)
        except KafkaException as error:
            raise self._unknown(partition, error.args[0]) from None
        if found.error is not None:
            raise self._unknown(partition, found.error)
        return found.offset

    def _offsets(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the one behind the last."""
        from confluent_kafka import KafkaException, TopicPartition

        where = TopicPartition(self._topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(where, timeout=kafka_client.REQUEST_SECONDS)
        except KafkaException as error:
            raise self._unknown(partition, error.args[0]) from None
        return low, high

    def _unknown(self, partition: int, error: "KafkaError") -> CommandError:
        why = leader_problem(self._brokers, self._topic, [partition]) or kafka_client.error_text(error)
        return CommandError(f"the offsets of partition {partition} are not known: {why}")

    def _look_why(self, is_end_wanted: bool) -> None:
        """Find out why nothing comes; at the end of every partition, nothing may be wrong."""
        self._idle.restart()
        unfinished = self._ends.unfinished
        try:
            why = leader_problem(self._brokers, self._topic, unfinished or self._assigned) or silence_problem(
                self._brokers, self._topic, {partition: self._position(partition) for partition in unfinished}
            )
        except NoQuorumError as error:
            if is_end_wanted:
                raise
            why = str(error)
        if unfinished and is_end_wanted:
            raise CommandError(why)
        if why and why != self._warning:
            self._sink.warn(f"{why}; still trying")
        self._warning = why

    def _position(self, partition: int) -> int:
        """Return the next offset to read, or librdkafka's mark of where reading begins."""
        (position,) = self._consumer.position([self._assigned[partition]])
        return position.offset if position.offset >= 0 else self._assigned[partition].offset


def isolation_level(*, is_committed: bool) -> str:
    """Return librdkafka's word; its own default is read_committed, where Kafka's tools read everything."""
    return "read_committed" if is_committed else "read_uncommitted"


def partition_number(message: "Message") -> int:
    """Return the partition of a message; -1 where it has none."""
    partition = message.partition()
    return -1 if partition is None else partition


def check_passing(error: "KafkaError") -> None:
    """Raise CommandError unless librdkafka goes on trying."""
    if error.fatal() or not passes_by_itself(error):
        raise CommandError(kafka_client.error_text(error))


def passes_by_itself(error: "KafkaError") -> bool:
    """Return whether librdkafka goes on trying: brokers that are away, a coordinator that nobody needs here."""
    return error.retriable() or error.name() in kafka_client.UNREACHABLE | {"_UNSUPPORTED_FEATURE"}
