"""Kafka Streams' own smoke test (`StreamsSmokeTest`), which Kafka's test jar has.

Its mode `run` writes a thousand records of each of twenty keys to the topic `data`, in 90 s. Then it reads the outputs
until they are right, or until no more come. `process` is an instance of the application: counts, sums, least and
greatest numbers in windows, suppressed windows, a table of a table, and a join with a foreign key. The application
makes its compacted topics itself.
"""

from pathlib import Path

from tests.clients.streams_application import StreamsProcess, inputs_done, request_topics
from tests.process.broker_processes import eventually

APPLICATION = "SmokeTest"
_SOURCE = "data"
# As the program names them in `SmokeTestDriver.topics`.
_TOPICS = (
    *(_SOURCE, "echo", "max", "min", "min-suppressed", "min-raw", "dif", "sum", "sws-raw", "sws-suppressed"),
    *("cnt", "avg", "tagg", "fk"),
)
_CLASS = "org.apache.kafka.streams.tests.StreamsSmokeTest"
_OPTIONS = {
    # A group waits that long for an instance that was killed.
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "2000",
    "commit.interval.ms": "1000",
    # The default are three, each with its consumers and its producer.
    "num.stream.threads": "1",
}
_STEP_INPUTS = 300
# The driver writes 20,000 in all; an application cannot be waited for beyond that.
_LAST_STEP = 19_000
_STEP_SECONDS = 180.0
# The driver writes for 90 s, and asks then for a while.
_DRIVER_SECONDS = 420.0
_LOG_END = 3_000


def _has_repeats_only(said: str) -> bool:
    """Whether all records were delivered, and all that the driver objects to in its last look are repeats."""
    last = said.rpartition("ALL-RECORDS-DELIVERED")[2]
    objections = last.count("fail: key=")
    return last != said and objections > 0 and objections == last.count("\tnon-unique result:\n")


class SmokeRun:
    """The driver and instances of the application; whoever makes it calls `close`.

    Args:
        bootstrap: The brokers.
        folder: For states, properties and what the processes say.
        guarantee: The `processing.guarantee` of the application.
        replicas: Of each topic.
    """

    def __init__(self, bootstrap: str, folder: Path, guarantee: str, replicas: int) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._guarantee = guarantee
        self._lives = 0
        self._done = 0
        self._instances: dict[str, StreamsProcess] = {}
        request_topics(bootstrap, _TOPICS, replicas)
        self._driver = self._process("run", "driver")

    def _process(self, mode: str, name: str) -> StreamsProcess:
        self._lives += 1
        properties = self._folder / f"{name}.properties"
        options = {
            "bootstrap.servers": self._bootstrap,
            "state.dir": str(self._folder / name),
            "processing.guarantee": self._guarantee,
            **_OPTIONS,
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in options.items()), encoding="utf-8")
        return StreamsProcess(_CLASS, mode, properties, self._folder / f"{name}-{self._lives}.log")

    def start(self, instance: str) -> None:
        """Start an instance, and wait until it runs."""
        process = self._instances[instance] = self._process("process", instance)

        def is_at_work() -> bool:
            process.check_runs()
            return "SMOKE-TEST-CLIENT-STARTED" in process.said()

        eventually(lambda: f"{instance} is at work:\n{process.said()[-_LOG_END:]}", is_at_work, _STEP_SECONDS)

    def kill(self, instance: str) -> None:
        """SIGKILL, and reap."""
        self._instances.pop(instance).kill()

    def wait_more(self) -> None:
        """Wait until the instances have committed some more inputs as done, or nearly all."""
        wanted = min(self._inputs_done() + _STEP_INPUTS, _LAST_STEP)

        def is_done() -> bool:
            for process in self._instances.values():
                process.check_runs()
            return self._inputs_done() >= wanted

        eventually(lambda: f"{wanted} inputs done, now {self._done}{self._ends_of_logs()}", is_done, _STEP_SECONDS)

    def verify(self) -> None:
        """Wait until the driver has judged the outputs; fails with what it says.

        It wants each suppressed window once, also at at-least-once. An instance that waits for a partition's new leader
        may write a window that another instance has written since. So there it may find such repeats, and nothing else.
        """
        self._driver.wait(_DRIVER_SECONDS)
        said = self._driver.said()
        repeats = self._guarantee == "at_least_once" and _has_repeats_only(said)
        assert "SUCCESS" in said or repeats, f"{said[-_LOG_END:]}{self._ends_of_logs()}"
        if self._guarantee == "exactly_once_v2":
            assert "PROCESSED-MORE-THAN-GENERATED" not in said, said[-_LOG_END:]

    def end(self) -> None:
        """Let the instances end in good order."""
        for process in self._instances.values():
            process.ask_to_end()
        for name, process in self._instances.items():
            process.wait(_STEP_SECONDS)
            assert "SMOKE-TEST-CLIENT-CLOSED" in process.said(), f"{name}:\n{process.said()[-_LOG_END:]}"
        self._instances.clear()

    def close(self) -> None:
        """Kill what still runs."""
        for process in (self._driver, *self._instances.values()):
            process.kill()

    def _inputs_done(self) -> int:
        done = inputs_done(self._bootstrap, APPLICATION, _SOURCE)
        if done is not None:
            self._done = done
        return self._done

    def _ends_of_logs(self) -> str:
        every = {"driver": self._driver, **self._instances}
        return "".join(f"\n{name}:\n{process.said()[-_LOG_END:]}" for name, process in every.items())
