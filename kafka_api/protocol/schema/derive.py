"""Write the field tables and the stub of `messages` anew: `python -m kafka_api.protocol.schema.derive`.

A developer tool. It reads the message definitions of Apache Kafka that the `kafka-python` package (>= 3) carries, and
keeps facts only: names, types, versions, nullability, tags and defaults. Nothing of the broker imports it. To take an
API in, add its key to `API_KEYS` and run it; kafka-python's release decides how new the versions are.
"""

import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_api.protocol.schema.generated_header import HEADER

# What brokers do not ask each other: everything our handlers answer.
API_KEYS = (
    *(0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33),
    *(35, 37, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 55, 57, 60, 61, 65, 66, 74, 75),
)

_RESOURCES = "kafka/protocol/schemas/resources"

_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_Json = Mapping[str, Any]


def _sources() -> Iterator[_Json]:
    # Located, not imported: kafka-python's modules would all be loaded for a few data files.
    folder = Path(str(importlib.metadata.distribution("kafka-python").locate_file(_RESOURCES)))
    for path in sorted(folder.glob("*.json")):
        yield json.loads(_COMMENT.sub("", path.read_text(encoding="utf-8")))


def _field_lines(fields: list[_Json], structs: Mapping[str, list[_Json]], indent: str) -> Iterator[str]:
    for field in fields:
        words = [_WORD_START.sub("_", field["name"]).lower(), field["type"], field["versions"]]
        if "nullableVersions" in field:
            words.append(f"null={field['nullableVersions']}")
        if "tag" in field:
            words.append(f"tag={field['tag']}@{field['taggedVersions']}")
        default = field.get("default", "")
        if isinstance(default, bool):
            default = str(default).lower()
        if default not in ("", "0", 0, "false"):
            words.append(f"default={default}")
        yield indent + " ".join(words)
        nested = field.get("fields") or structs.get(field["type"].removeprefix("[]"), [])
        yield from _field_lines(nested, structs, indent + "  ")


def _definition(source: _Json) -> str:
    structs = {struct["name"]: struct["fields"] for struct in source.get("commonStructs", [])}
    head = f"{source['apiKey']} {source['type']} {source['validVersions']} flexible={source['flexibleVersions']}"
    return "\n".join([head, *_field_lines(source["fields"], structs, "")])


def definitions_text() -> str:
    """Return the source of `definitions.py`, as kafka-python's message definitions give it."""
    messages = [source for source in _sources() if source.get("apiKey") in API_KEYS]
    messages.sort(key=lambda source: (source["apiKey"], source["type"]))
    parts = [HEADER, '"""Field tables by message name; message_schema.py says how they read."""\n\n']
    parts.append("DEFINITIONS: dict[str, str] = {\n")
    parts.extend(f'    "{source["name"]}": """\n{_definition(source)}\n""",\n' for source in messages)
    parts.append("}\n")
    return "".join(parts)


def main() -> None:
    """Write both generated files into the checkout."""
    here = Path(__file__).parent
    (here / "definitions.py").write_text(definitions_text(), encoding="utf-8")
    # Imported only now: the stub follows the definitions just written.
    from kafka_api.protocol.schema.stub import stub_text

    (here.parent / "messages.pyi").write_text(stub_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
