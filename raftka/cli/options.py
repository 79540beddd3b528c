"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from raftka.config import parse_address
from raftka.kafka_client import DEFAULT_BROKERS


class Format(StrEnum):
    """How data is printed."""

    TEXT = "text"
    JSON = "json"


def _check_brokers(text: str) -> str:
    for address in text.split(","):
        # A bootstrap address may have a protocol before it, as in PLAINTEXT://127.0.0.1:9092.
        try:
            parse_address(address.strip().rpartition("://")[2])
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return text


BrokersOption = Annotated[
    str,
    typer.Option(
        "--brokers",
        envvar="RAFTKA_BROKERS",
        metavar="HOST:PORT,...",
        callback=_check_brokers,
        help="Where to find the cluster.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="How to print it.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Folder of the cluster; default: raftka/dev in the XDG data folder."
    ),
]

__all__ = ["DEFAULT_BROKERS", "BrokersOption", "DataDirOption", "Format", "FormatOption"]
