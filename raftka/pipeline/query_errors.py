"""Why a query failed, in one line: what Spark says is pages of stack traces."""

import re

from raftka.error_text import reason_of

# The option alone is no sign of it: it is in every plan of a query that is printed.
_LOST = re.compile(r"data may have been (?:missed|lost)|option ['\"]failOnDataLoss", re.IGNORECASE)
_CAUSE = re.compile(r"^(?:: |Caused by: )?(?:[a-z][\w$]*\.)+([A-Z][\w$]*(?:Exception|Error)): (.+)$")
_PYTHON = re.compile(r"^((?:raftka\.)?(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (.+)$")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]{3,})\] ?(.*)")
_ENDING = re.compile(
    r"SparkContext was shut down|stopped SparkContext|Answer from Java side is empty|while sending or receiving"
    r"|while obtaining a new communication channel"
)
_SEARCH_LINES = 400
_LENGTH_MAX = 500


def is_jvm_ending(error: BaseException) -> bool:
    """Return whether the end of the JVM looks like this error: it closes its connections before it is gone."""
    is_cut = isinstance(error, (ConnectionError, EOFError)) or type(error).__name__ == "Py4JNetworkError"
    return is_cut or _ENDING.search(reason_of(error)) is not None


def query_error(text: str) -> str:
    """Return what a failed query's exception means."""
    lines = [line.strip() for line in text.splitlines()[:_SEARCH_LINES] if line.strip()]
    if any(_LOST.search(line) for line in lines):
        told = next((line for line in lines if re.search(r"offset|Partition|partitions", line)), lines[0])
        return _cut(
            "records are gone that were not read yet (retention was faster, or a topic was deleted);"
            f" fail.on.data.loss = false continues without them: {_plain(told)}"
        )
    # An error of our own, raised in a batch, is the cause and its words are for people.
    for line in reversed(lines):
        if (own := _PYTHON.match(line)) and own[1].startswith("raftka."):
            return _cut(own[2])
    if (why := cause(text)) is not None:
        return f"the query failed: {why}"
    return _cut(f"the query failed: {_plain(lines[0])}" if lines else "the query failed, and Spark gives no reason")


def cause(text: str) -> str | None:
    """Return the exception that is behind all others in a stack trace; None: none is named."""
    lines = [line.strip() for line in text.splitlines()[:_SEARCH_LINES]]
    found = [each for line in lines if (each := _CAUSE.match(line) or _PYTHON.match(line))]
    return _cut(f"{found[-1][1]}: {_plain(found[-1][2])}") if found else None


def _plain(line: str) -> str:
    found = _CONDITION.search(line)
    return found[2] if found and found[2] else line


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}..."
