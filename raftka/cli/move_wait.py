"""What the commands that move partitions share: they ask, tell the answer, and wait."""

import sys
import time
from collections.abc import Mapping
from typing import Any

from raftka.cli.admin_verbs import VerbRefusedError, ask_verb
from raftka.cli.exit_codes import CommandError
from raftka.cli.options import Format
from raftka.cli.output import node_list, print_json
from raftka.kafka import client as kafka_client
from raftka.kafka.errors import KafkaClientError

Partition = tuple[str, int]
_PAUSE = 0.5
_LOOKS_IF_RIGHT = 2
_LOOKS = 10
_PATIENCE_SECONDS = 60.0
_SHOWN_MAX = 3
NO_CURES: Mapping[str, str] = {}


def ask_and_report(
    brokers: str,
    path: str,
    document: dict[str, Any],
    output: Format,
    *,
    is_cancel: bool = False,
    is_waited_for: bool = False,
    cures: Mapping[str, str] = NO_CURES,
) -> tuple[dict[str, Any], list[Partition]]:
    """Ask a verb that moves partitions, and print what becomes of each; return the answer, and what is accepted.

    Args:
        brokers, path, document: As `ask_verb`.
        output: How to print it.
        is_cancel: The partitions return to where they were.
        is_waited_for: `wait_until_moved` follows; else the command that shows the moves is named.
        cures: What helps against an error, by its name.

    Raises:
        CommandError: The request is refused as a whole.
    """
    try:
        answer = ask_verb(brokers, path, document)
    except VerbRefusedError as error:
        if "partitions" not in error.body:
            raise
        answer = error.body
    rows, is_dry = answer["partitions"], document["dry_run"]
    if output is Format.JSON:
        print_json(answer)
    else:
        for row in rows:
            name = f"{row['topic']}/{row['partition']}"
            if row["error"]:
                cure = f"; {cures[row['error']]}" if row["error"] in cures else ""
                print(f"raftka: {name}: {row['message']} ({row['error']}){cure}", file=sys.stderr)
            elif is_cancel:
                print(f"{name}: {'would go' if is_dry else 'goes'} back to where it was{_but(row)}")
            elif row.get("is_there"):
                print(f"{name}: is on {node_list(row['replicas'])} already")
            else:
                print(f"{name}: {'would move' if is_dry else 'moves'} to {node_list(row['replicas'])}{_but(row)}")
        if not rows and document.get("all"):
            print("no partition is being moved")
        if is_dry:
            print("nothing is changed (--dry-run)")
        elif answer.get("waits_for") and not is_waited_for:
            print("raftka: `raftka partition moves` says what this waits for", file=sys.stderr)
    return answer, [(row["topic"], row["partition"]) for row in rows if not row["error"]]


def wait_until_moved(brokers: str, targets: Mapping[Partition, list[int] | None], seconds: float) -> None:
    """Return once none of these is being moved; say on stderr what that waits for.

    Args:
        brokers: Bootstrap addresses.
        targets: Where each shall be then; None: wherever it was.
        seconds: How long to wait.

    Raises:
        CommandError: It takes longer; one of them was moved elsewhere, or back, meanwhile; or brokers did not answer
            for long.
        KafkaClientError: The same of their Kafka ports.
    """
    told = wrong = ""
    answered = time.monotonic()
    deadline = answered + seconds
    # A broker that lags does not know the moves yet, so one look does not count.
    looks = 0
    while looks < _LOOKS:
        try:
            moving = _moving(brokers, targets)
            wrong = "" if moving else _misplaced(brokers, targets)
        except (CommandError, KafkaClientError) as error:
            if time.monotonic() - answered > _PATIENCE_SECONDS:
                raise
            words = str(error)
        else:
            answered = time.monotonic()
            looks = 0 if moving else looks + 1
            if not moving and not wrong and looks == _LOOKS_IF_RIGHT:
                return
            words = "; ".join(_words(row) for row in moving[:_SHOWN_MAX])
            words = words and f"{len(moving)} to be moved: {words}"
        if words and words != told:
            print(f"raftka: {words}", file=sys.stderr)
            told = words
        if time.monotonic() > deadline:
            raise CommandError(
                f"not done within {seconds:g} s: {told or wrong or 'the brokers lag'}; it goes on, and the same command"
                " waits again"
            )
        time.sleep(_PAUSE)
    raise CommandError(wrong)


def _moving(brokers: str, targets: Mapping[Partition, list[int] | None]) -> list[dict[str, Any]]:
    rows = ask_verb(brokers, "/v1/moves")["moves"]
    return [row for row in rows if (row["topic"], row["partition"]) in targets]


def _misplaced(brokers: str, targets: Mapping[Partition, list[int] | None]) -> str:
    """Return what is not where it shall be, in words; empty: all is."""
    topics = kafka_client.read_cluster(brokers).topics
    for (topic, number), target in targets.items():
        found = next((each for each in topics.get(topic, ()) if each.partition == number), None)
        if found is None:
            return f"{topic}/{number} is gone: its topic was deleted"
        if target is not None and list(found.replicas) != target:
            return f"{topic}/{number} is on broker {node_list(found.replicas)}: somebody else has moved it"
    return ""


def _but(row: Mapping[str, Any]) -> str:
    # A broker of an older version does not tell it.
    return f", but not before {row['waits_for']}" if row.get("waits_for") else ""


def _words(row: Mapping[str, Any]) -> str:
    waits = f", and waits until {row['waits_for']}" if row["waits_for"] else ""
    return f"{row['topic']}/{row['partition']} is {row['state']}{waits}"
