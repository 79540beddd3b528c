"""Compiles what finds the error codes in a response, as the encoders are compiled: from its schema, once per version.

An error code is a number called `error_code`, or `partition_error_code`, anywhere in the response; most responses have
one for each partition.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

from kafka_api.protocol.message_classes import Message
from kafka_api.protocol.schema.message_schema import Direction, Field, MessageSchema, Struct, schema_of
from kafka_api.protocol.source_writer import SourceWriter

# Returns the codes other than 0. Most responses have none: nothing is allocated for them.
ErrorScanner: TypeAlias = Callable[[Message], Sequence[int]]

_ERROR_CODES = frozenset({"error_code", "partition_error_code"})


@cache
def error_scanner(api_key: int, api_version: int) -> ErrorScanner:
    """Return the scanner of a response's version.

    Raises:
        UnsupportedVersionError: The schema does not have this key.
    """
    return compile_error_scanner(schema_of(api_key, Direction.RESPONSE), api_version)


def compile_error_scanner(schema: MessageSchema, version: int) -> ErrorScanner:
    """Return the scanner of a version that the schema has."""
    namespace: dict[str, Any] = {}
    generator = _ScannerGenerator(namespace, version)
    return generator.message(schema)


class _ScannerGenerator:
    def __init__(self, namespace: dict[str, Any], version: int) -> None:
        self._writer = SourceWriter(namespace)
        self._version = version
        self._depth = 0

    def message(self, schema: MessageSchema) -> ErrorScanner:
        self._writer.emit("codes = ()")
        self._struct(schema.struct, "message")
        self._writer.emit("return codes")
        return self._writer.compile("scan", "message", f"errors of {schema.name} v{self._version}")

    def _struct(self, layout: Struct, source: str) -> None:
        for field in self._fields(layout):
            if field.struct is None:
                with self._writer.block(f"if {source}.{field.name}:"):
                    self._writer.emit(f"codes += ({source}.{field.name},)")
            elif field.is_array:
                self._depth += 1
                item = f"item{self._depth}"
                with self._writer.block(f"for {item} in {source}.{field.name} or ():"):
                    self._struct(field.struct, item)
                self._depth -= 1
            else:
                self._depth += 1
                inner = f"inner{self._depth}"
                self._writer.emit(f"{inner} = {source}.{field.name}")
                with self._writer.block(f"if {inner} is not None:"):
                    self._struct(field.struct, inner)
                self._depth -= 1

    def _fields(self, layout: Struct) -> list[Field]:
        """Return the fields of the version that are error codes, or hold some."""
        return [
            field
            for field in layout.fields
            if field.versions.has(self._version)
            and (
                bool(self._fields(field.struct))
                if field.struct is not None
                else field.name in _ERROR_CODES and not field.is_array
            )
        ]
