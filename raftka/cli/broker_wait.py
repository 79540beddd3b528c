"""Waiting for what commands of `raftka broker` have begun: progress on stderr, and a bound."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from raftka.cli.admin_verbs import VerbRefusedError, ask_verb
from raftka.cli.exit_codes import CommandError
from raftka.kafka.errors import KafkaClientError

_PAUSE = 0.5
# A broker that lags does not know the change yet, so one look does not count.
_LOOKS = 2
_PATIENCE_SECONDS = 60.0


def _in_words(node: int, waits_for: str) -> str:
    # What itself is to do first, it does not wait for.
    own = f"broker {node} to "
    return (
        f"broker {node} is to {waits_for.removeprefix(own)}"
        if waits_for.startswith(own)
        else (f"broker {node} waits for {waits_for}")
    )


def wait_until(brokers: str, node: int, seconds: float, is_done: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any]:
    """Return what is told of a broker once it is done; say on stderr what it waits for, whenever that changes.

    Raises:
        CommandError: It takes longer than `seconds`, or no broker has answered for long.
        KafkaClientError: The same of their Kafka ports.
    """
    deadline = time.monotonic() + seconds
    answered = time.monotonic()
    told, looks = "", 0
    while True:
        try:
            found = ask_verb(brokers, f"/v1/brokers/{node}")
        except VerbRefusedError:
            raise
        except (CommandError, KafkaClientError) as error:
            if time.monotonic() - answered > _PATIENCE_SECONDS:
                raise
            words = str(error)
        else:
            answered = time.monotonic()
            looks = looks + 1 if is_done(found) else 0
            if looks == _LOOKS:
                return found
            words = _in_words(node, found["waits_for"]) if found["waits_for"] else ""
        if words and words != told:
            print(f"raftka: {words}", file=sys.stderr)
            told = words
        if time.monotonic() > deadline:
            raise CommandError(
                f"not done within {seconds:g} s: {told or 'the brokers lag'}; it goes on, and the same command waits"
                " again"
            )
        time.sleep(_PAUSE)
