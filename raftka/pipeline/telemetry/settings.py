"""Keys of the kind `telemetry`."""

from raftka.pipeline.settings import PipelineSettings, Positive, parse_duration

TELEMETRY_TOPIC = "__raftka_telemetry"
WINDOWS_TOPIC = "__raftka_telemetry_windows"
WINDOW_SECONDS_MIN = 5


class Settings(PipelineSettings, frozen=True, kw_only=True):
    """Keys of its own, and four whose defaults fit what is read.

    Attributes:
        topics: Where the brokers publish.
        version: 3 since reports say what replicas have written and applied, and how many replicas there are: a
            checkpoint of before cannot hold that.
        max_offsets_per_trigger: A batch is in the query's state twice, and what it has to catch up with is an hour.
        fail_on_data_loss: Not an error: the topic's retention is short, and a gap in figures shows.
        to: Folder of the tables; None: `telemetry` in the pipeline's folder.
        windows_topic: Gets the windows as JSON; it is made if it does not exist.
        window: Length of a window, in whole seconds.
        watermark: How late a report may come and still count.
    """

    topics: tuple[str, ...] = (TELEMETRY_TOPIC,)
    version: Positive = 3
    max_offsets_per_trigger: Positive = 100_000
    fail_on_data_loss: bool = False
    to: str | None = None
    windows_topic: str = WINDOWS_TOPIC
    window: str = "10s"
    watermark: str = "10s"

    @property
    def window_seconds(self) -> int:
        """Seconds of a window."""
        return int(parse_duration(self.window, "window"))

    @property
    def watermark_seconds(self) -> float:
        """Seconds that a report may be late."""
        return parse_duration(self.watermark, "watermark")

    def check(self) -> None:
        """Compare the values with each other."""
        super().check()
        seconds = parse_duration(self.window, "window")
        if seconds != int(seconds) or seconds < WINDOW_SECONDS_MIN:
            raise ValueError(f"window = {self.window}: whole seconds, {WINDOW_SECONDS_MIN} or more")
        parse_duration(self.watermark, "watermark")
        self.refuse_own_source("windows.topic", self.windows_topic)
