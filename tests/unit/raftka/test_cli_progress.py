"""What librdkafka's debug log says of brokers that refuse to read."""

import pytest

from raftka.cli.progress import read_problem, refusal


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            (
                "FETCHERR [rdkafka#consumer-1] [thrd:127.0.0.1:25753/3]: 127.0.0.1:25753/3: some.topic [0]: Fetch failed at"
                " offset 6422 (leader epoch 1): KAFKA_STORAGE_ERROR"
            ),
            "broker 3 answered KAFKA_STORAGE_ERROR (Disk error when trying to access log file on disk) at offset 6422",
        ),
        (
            (
                "FETCHERR [rdkafka#consumer-1] [thrd:h:1/12]: h:1/12: t [0]: Fetch failed at offset 1 (leader epoch -1):"
                " NOT_KNOWN_TO_US"
            ),
            "broker 12 answered NOT_KNOWN_TO_US at offset 1",
        ),
        (
            (
                "OFFSET [rdkafka#consumer-1] [thrd:main]: 127.0.0.1:25753/3: Offset reply error for topic dmg [0] (v2,"
                " Broker: Not leader for partition): Refresh"
            ),
            "broker 3 answered: Not leader for partition",
        ),
        (
            "BACKOFF [rdkafka#consumer-1] [thrd:h:1/1]: h:1/1: t [0]: Fetch backoff for 500ms: Local: Read underflow",
            "the records at offset 7 cannot be decoded (Read underflow); try a higher --offset to skip them",
        ),
        ("BACKOFF [rdkafka#consumer-1] [thrd:h:1/1]: h:1/1: t [0]: Fetch backoff for 500ms: Local: Queue full", ""),
        ("FETCH [rdkafka#consumer-1] [thrd:h:1/1]: h:1/1: Fetch topic t [0] at offset 7 (leader epoch 1)", ""),
        ("", ""),
    ],
)
def test_a_refusal_is_found_in_a_log_line(line: str, words: str) -> None:
    assert refusal(line, 7) == words


def test_a_broker_that_is_not_there_refuses_nothing() -> None:
    assert read_problem("127.0.0.1:1", "t", 0, 0) == ""
