"""Reads a topic as a member of a consumer group: what is printed is committed, and nothing before it is printed."""

from contextlib import suppress
from typing import TYPE_CHECKING

from raftka.cli.assigned_reader import FETCH_WAIT_MS, POLL_SECONDS, check_passing, isolation_level, partition_number
from raftka.cli.exit_codes import CommandError
from raftka.cli.partition_ends import PartitionEnds
from raftka.cli.progress import PATIENCE_SECONDS, QuorumWatch, Stopwatch, leader_problem, silence_problem
from raftka.cli.record_sink import RecordSink
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import NoQuorumError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

# Between records that are printed and their being ready to be committed.
_UNSETTLED_MAX = 1_000


class GroupReader:
    """One member of a consumer group, which reads what it is given into a sink."""

    def __init__(
        self,
        brokers: str,
        topic: str,
        group: str,
        sink: RecordSink,
        *,
        begins_at_end: bool,
        is_committed: bool = False,
    ) -> None:
        self._brokers = brokers
        self._topic = topic
        self._group = group
        self._sink = sink
        self._begins_at_end = begins_at_end
        # Commits are sent in the background and at the close, of what was stored: see `_settle`.
        self._consumer: Consumer = kafka_client.new_consumer(
            brokers,
            group_id=group,
            enable_partition_eof=True,
            fetch_wait_max_ms=FETCH_WAIT_MS,
            enable_auto_commit=True,
            enable_auto_offset_store=False,
            auto_offset_reset="latest" if begins_at_end else "earliest",
            isolation_level=isolation_level(is_committed=is_committed),
        )
        self._assigned: set[int] = set()
        self._ends = PartitionEnds(brokers, topic)
        self._exits_at_end = False
        self._has_been_assigned = False
        self._unsettled: dict[int, Message] = {}
        self._unsettled_count = 0
        self._idle = Stopwatch()
        self._quorum = QuorumWatch(brokers)
        self._warning = ""
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def run(self, count: int | None, exit_at_end: bool) -> None:
        """Print records until there were `count`, or with `exit_at_end` until the ends of all that it was given.

        A partition ends where it ended when it was given to this member first.

        Raises:
            CommandError: The group or the topic refuses; where an end was asked for, also a partition that is not read
                for long.
            NoQuorumError: An end was asked for, and too few brokers answer.
        """
        self._exits_at_end = exit_at_end
        is_end_wanted = exit_at_end or count is not None
        self._idle.restart()
        try:
            while (count is None or self._sink.printed < count) and not (exit_at_end and self._is_at_end):
                message = self._consumer.poll(POLL_SECONDS)
                if message is None:
                    self._settle()
                    if is_end_wanted:
                        self._quorum.look()
                    if self._idle.has_expired:
                        self._look_why(is_end_wanted=is_end_wanted)
                    continue
                self._idle.restart()
                self._take(message)
        except KeyboardInterrupt:
            self._settle()
            raise
        self._settle()

    def close(self) -> None:
        """Commit what was printed and leave the group."""
        self._consumer.close()

    @property
    def _is_at_end(self) -> bool:
        return self._has_been_assigned and not self._ends.unfinished

    def _take(self, message: "Message") -> None:
        partition = partition_number(message)
        error = message.error()
        if error is not None:
            if error.name() == "_PARTITION_EOF":
                self._ends.on_nothing_left(partition)
            else:
                check_passing(error)
            return
        if not self._ends.admits(partition, kafka_client.delivered_offset(message)):
            self._consumer.pause([self._where(partition)])
            return
        self._sink.print(message)
        self._unsettled[partition] = message
        self._unsettled_count += 1
        if self._unsettled_count >= _UNSETTLED_MAX or self._sink.is_due:
            self._settle()

    def _settle(self) -> None:
        """Bring to our reader what was printed, and only then let it be committed."""
        self._sink.flush()
        for partition, message in self._unsettled.items():
            # A partition that was taken away has another owner, whose commits count.
            if partition in self._assigned:
                self._consumer.store_offsets(message=message)
        self._unsettled.clear()
        self._unsettled_count = 0

    def _on_assign(self, _: "Consumer", partitions: "list[TopicPartition]") -> None:
        self._assigned = {each.partition for each in partitions}
        if self._exits_at_end:
            self._ends.ask(self._assigned)
        self._ends.unfinished = set(self._assigned)
        self._has_been_assigned = True
        self._idle.restart()

    def _on_revoke(self, _: "Consumer", __: "list[TopicPartition]") -> None:
        # The last moment in which a commit is still ours.
        self._settle()
        self._assigned.clear()
        self._has_been_assigned = False

    def _on_lost(self, _: "Consumer", __: "list[TopicPartition]") -> None:
        self._assigned.clear()
        self._has_been_assigned = False
        self._settle()

    def _look_why(self, is_end_wanted: bool) -> None:
        self._idle.restart()
        unfinished = self._ends.unfinished if self._has_been_assigned else set()
        try:
            why = leader_problem(self._brokers, self._topic, unfinished) or silence_problem(
                self._brokers, self._topic, {partition: self._position(partition) for partition in unfinished}
            )
        except NoQuorumError as error:
            if is_end_wanted:
                raise
            why = str(error)
        if unfinished and is_end_wanted:
            raise CommandError(why)
        if not why and not self._has_been_assigned:
            why = (
                f"the coordinator of group {self._group} has assigned no partitions to this member for"
                f" {PATIENCE_SECONDS:.0f} s"
            )
        if why and why != self._warning:
            self._sink.warn(f"{why}; still trying")
        self._warning = why

    def _position(self, partition: int) -> int:
        """Return the next offset to read, or librdkafka's mark of where reading begins."""
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException

        (found,) = self._consumer.position([self._where(partition)])
        if found.offset < 0:
            # Nothing was read yet, so reading begins where the group has committed.
            with suppress(KafkaException):
                (found,) = self._consumer.committed([self._where(partition)], timeout=kafka_client.REQUEST_SECONDS)
        if found.offset >= 0:
            return found.offset
        return OFFSET_END if self._begins_at_end else OFFSET_BEGINNING

    def _where(self, partition: int) -> "TopicPartition":
        from confluent_kafka import TopicPartition

        return TopicPartition(self._topic, partition)
