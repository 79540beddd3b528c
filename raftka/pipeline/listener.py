"""Spark's listener: progress of one query, passed on; what goes wrong in it is said and never ends the query."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from raftka.pipeline.progress import Progress, parse_progress
from raftka.pipeline.progress_outputs import ProgressOutput


class ProgressListener(StreamingQueryListener):  # type: ignore[misc]
    """Passes the progress of the query of one name to outputs.

    Attributes:
        has_ended: Set when the query's end was reported, which is after its last progress.
    """

    def __init__(
        self,
        query: str,
        outputs: Sequence[ProgressOutput],
        on_batch: Callable[[Progress], None],
        complain: Callable[[str], None],
    ) -> None:
        self._query = query
        self._outputs = outputs
        self._on_batch = on_batch
        self._complain = complain
        self._run_id: str | None = None
        self.has_ended = threading.Event()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Note which run is ours: other queries of the session have listeners of their own."""
        if event.name == self._query:
            self._run_id = str(event.runId)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Pass one batch on."""
        if str(event.progress.runId) != self._run_id:
            return
        try:
            progress = parse_progress(event.progress.json)
        except ValueError as error:
            self._complain(f"progress of {self._query} cannot be read: {error}")
            return
        self._on_batch(progress)
        for output in self._outputs:
            output.take(progress)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing came."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Note the end."""
        if str(event.runId) == self._run_id:
            self.has_ended.set()
