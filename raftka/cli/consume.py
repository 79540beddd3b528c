"""`raftka consume`: records to stdout. Partitions are assigned by hand: no consumer group is needed."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raftka import kafka_client
from raftka.cli.exit_codes import CommandError
from raftka.cli.options import DEFAULT_BROKERS, BrokersOption
from raftka.cli.output import RecordFormat, bytes_as_json, print_json_line
from raftka.cli.progress import PATIENCE_SECONDS, Stopwatch, leader_problem, read_problem

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

_POLL_SECONDS = 0.2
# How long a broker may wait for more before it says that there is nothing: a person waits for the end as long.
_FETCH_WAIT_MS = 100
_DIRECTIVES = "tpoksT"
_TEXT_FORMAT = r"%s\n"


def consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What to read.")],
    offset: Annotated[
        str,
        typer.Option(metavar="start|end|N|-N", help="Where to begin in each partition; -N: the last N records."),
    ] = "start",
    partition: Annotated[int | None, typer.Option(min=0, help="Partition; default: all.")] = None,
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="Stop after so many records.")] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", "-e", help="Stop where the partitions end at this moment.")
    ] = False,
    output: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="text|json|FORMAT",
            help="text: the values; json: an object per line; or a format with %t topic, %p partition, %o offset,"
            r" %k key, %s value, %T timestamp in ms, %%, \n and \t.",
        ),
    ] = "text",
    brokers: BrokersOption = DEFAULT_BROKERS,
) -> None:
    """Print records until Ctrl-C, or as -n or -e say. Order holds within a partition."""
    begin = _parse_offset(offset)
    template = None if output == "json" else RecordFormat(_template(output), _DIRECTIVES)
    available = [each.partition for each in kafka_client.read_cluster(brokers).topic(topic)]
    if partition is not None and partition not in available:
        raise CommandError(f"topic {topic} has partitions 0 to {len(available) - 1}")
    reader = _Reader(brokers, topic, template)
    try:
        with kafka_client.one_line_errors(brokers):
            reader.assign(available if partition is None else [partition], begin)
            reader.run(count, exit_at_end)
    except KeyboardInterrupt:
        return
    finally:
        reader.close()


def _template(output: str) -> str:
    if output == "text":
        return _TEXT_FORMAT
    if "%" not in output:
        raise typer.BadParameter(f"--format {output}: must be text, json or a format with %-directives")
    return output


def _parse_offset(text: str) -> str | int:
    """Return start, end, or a number; a negative one counts from the end."""
    if text in {"start", "end"}:
        return text
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
        raise typer.BadParameter(f"--offset {text}: must be start, end, N or -N")
    # "-0" are the last 0 records, which is the end; as a number it would be the first offset.
    return "end" if text.startswith("-") and int(digits) == 0 else int(text)


class _Reader:
    """Reads assigned partitions of one topic and prints what comes."""

    def __init__(self, brokers: str, topic: str, template: RecordFormat | None) -> None:
        self._brokers = brokers
        self._topic = topic
        self._consumer: Consumer = kafka_client.new_consumer(
            brokers, enable_partition_eof=True, fetch_wait_max_ms=_FETCH_WAIT_MS
        )
        self._template = template
        self._assigned: dict[int, TopicPartition] = {}
        self._unfinished: set[int] = set()
        self._idle = Stopwatch()
        self._warning = ""

    def assign(self, partitions: list[int], begin: str | int) -> None:
        """Begin to read.

        Raises:
            CommandError: A partition does not have the offset, or nobody tells.
        """
        self._assigned = {partition: self._start(partition, begin) for partition in partitions}
        self._unfinished = set(partitions)
        self._consumer.assign(list(self._assigned.values()))

    def run(self, count: int | None, exit_at_end: bool) -> None:
        """Print records until there were `count`, or with `exit_at_end` until each partition's end was seen.

        Raises:
            CommandError: A partition cannot be read; where an end was asked for, also one that is not read for long.
        """
        printed = 0
        self._idle.restart()
        while (count is None or printed < count) and not (exit_at_end and not self._unfinished):
            message = self._consumer.poll(_POLL_SECONDS)
            if message is None:
                # Nothing to do just now: let whoever reads our output have what there is.
                sys.stdout.flush()
                if self._idle.has_expired:
                    self._look_why(is_end_wanted=exit_at_end or count is not None)
                continue
            self._idle.restart()
            error = message.error()
            if error is not None:
                self._handle(error, message)
                continue
            self._print(message)
            printed += 1
        sys.stdout.flush()

    def close(self) -> None:
        """Give the connections back."""
        self._consumer.close()

    def _start(self, partition: int, begin: str | int) -> "TopicPartition":
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

        if begin == "start":
            return TopicPartition(self._topic, partition, OFFSET_BEGINNING)
        if begin == "end":
            return TopicPartition(self._topic, partition, OFFSET_END)
        assert isinstance(begin, int)
        low, high = self._offsets(partition)
        if begin < 0:
            return TopicPartition(self._topic, partition, max(low, high + begin))
        if not low <= begin <= high:
            held = f"has offsets {low} to {high - 1}" if low < high else f"is empty, its next offset is {high}"
            raise CommandError(f"partition {partition} {held}; {begin} is not among them")
        return TopicPartition(self._topic, partition, begin)

    def _offsets(self, partition: int) -> tuple[int, int]:
        """Return the first offset and the one behind the last."""
        from confluent_kafka import KafkaException, TopicPartition

        where = TopicPartition(self._topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(where, timeout=kafka_client.REQUEST_SECONDS)
        except KafkaException as error:
            why = leader_problem(self._brokers, self._topic, [partition]) or kafka_client.error_text(error.args[0])
            raise CommandError(f"the offsets of partition {partition} are not known: {why}") from None
        return low, high

    def _look_why(self, is_end_wanted: bool) -> None:
        """Find out why nothing comes; at the end of every partition, nothing may be wrong."""
        self._idle.restart()
        why = leader_problem(self._brokers, self._topic, self._unfinished or self._assigned)
        for partition in sorted(self._unfinished):
            if why:
                break
            (position,) = self._consumer.position([self._assigned[partition]])
            offset = position.offset if position.offset >= 0 else self._assigned[partition].offset
            answer = read_problem(self._brokers, self._topic, partition, offset)
            why = f"partition {self._topic}-{partition} cannot be read: {answer}" if answer else ""
        if self._unfinished and not why:
            names = ", ".join(f"{self._topic}-{partition}" for partition in sorted(self._unfinished))
            why = f"nothing came from partition {names} for {PATIENCE_SECONDS:.0f} s, and no broker says why"
        if self._unfinished and is_end_wanted:
            raise CommandError(why)
        if why and why != self._warning:
            print(f"raftka: {why}; still trying", file=sys.stderr)
        self._warning = why

    def _handle(self, error: "KafkaError", message: "Message") -> None:
        if error.name() == "_PARTITION_EOF":
            self._unfinished.discard(_number(message.partition()))
        elif error.fatal() or not _passes_by_itself(error):
            raise CommandError(kafka_client.error_text(error))

    def _print(self, message: "Message") -> None:
        key, value = message.key(), message.value()
        _, timestamp = message.timestamp()
        if self._template is None:
            print_json_line(_as_json(message, key, value, timestamp))
            return
        fields = {
            "t": str(message.topic()).encode(),
            "p": str(message.partition()).encode(),
            "o": str(message.offset()).encode(),
            "k": key or b"",
            "s": value or b"",
            "T": str(timestamp).encode(),
        }
        sys.stdout.buffer.write(self._template.render(fields))


def _as_json(message: "Message", key: Any, value: Any, timestamp: int) -> dict[str, Any]:
    headers: Any = message.headers() or []
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp,
        "key": bytes_as_json(key),
        "value": bytes_as_json(value),
        "headers": [{"key": name, "value": bytes_as_json(data)} for name, data in headers],
    }


def _number(partition: int | None) -> int:
    return -1 if partition is None else partition


def _passes_by_itself(error: "KafkaError") -> bool:
    """Return whether librdkafka goes on trying: brokers that are away, a coordinator that nobody needs here."""
    return error.retriable() or error.name() in kafka_client.UNREACHABLE | {"_UNSUPPORTED_FEATURE"}
