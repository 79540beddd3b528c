"""Compiles the encoder of one message version.

The function is flat: it appends to one bytearray, and consecutive values of fixed width, together with the length that
follows them, are packed by one `struct.pack`. Records close the bytearray: it and their buffers go to the output list
by reference, and a new bytearray begins.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from kafka_api.protocol import wire
from kafka_api.protocol.message_classes import Buffer, Message, struct_classes
from kafka_api.protocol.schema.message_schema import Field, MessageSchema, Struct
from kafka_api.protocol.source_writer import NUMBER_LETTERS, UUID_BYTES, SourceWriter

# (message, out, tail) -> tail: small values are appended to the bytearray `tail`, which is not in `out` yet; the one
# returned is what follows the last records, and is the caller's to append.
Encoder: TypeAlias = Callable[[Message, list[Buffer], bytearray], bytearray]

# What an encoder raises for a message with a value that its field cannot hold.
ENCODE_ERRORS = (struct.error, AttributeError, TypeError, ValueError)


def compile_encoder(schema: MessageSchema, version: int) -> Encoder:
    """Return the encoder of a version that the schema has."""
    assert schema.versions.has(version)
    namespace: dict[str, Any] = {
        **{name: getattr(wire, name) for name in ("uvarint", "string_uvarint", "pack_uuid")},
        **struct_classes(schema.name),
    }
    generator = _EncoderGenerator(namespace, version, schema.flexible.has(version))
    return generator.message(schema)


class _EncoderGenerator:
    def __init__(self, namespace: dict[str, Any], version: int, flexible: bool) -> None:
        self._writer = SourceWriter(namespace)
        self._version = version
        self._flexible = flexible
        # Values of fixed width that are not written yet: struct letter and expression; "x" is a zero byte.
        self._run: list[tuple[str, str]] = []
        self._depth = 0

    def message(self, schema: MessageSchema) -> Encoder:
        self._struct(schema.struct, "message")
        self._flush()
        self._writer.emit("return tail")
        return self._writer.compile("encode", "message, out, tail", f"encoder of {schema.name} v{self._version}")

    def _flush(self) -> None:
        if self._run:
            self._writer.emit(f"tail += {self._packed(self._run)}")
            self._run = []

    def _packed(self, run: list[tuple[str, str]]) -> str:
        letters = "".join(letter for letter, _ in run)
        pack = self._writer.constant("pack", letters, lambda: struct.Struct(">" + letters).pack)
        return f"{pack}({', '.join(expression for letter, expression in run if letter != 'x')})"

    def _struct(self, layout: Struct, source: str) -> None:
        """Write a struct. Leaves a run behind."""
        tagged = []
        for field in layout.fields:
            if not field.versions.has(self._version):
                continue
            if field.tagged.has(self._version):
                tagged.append(field)
            else:
                self._field(field, f"{source}.{field.name}")
        if not self._flexible:
            return
        if tagged:
            self._flush()
            self._writer.emit(f"tail += {self._tag_writer(layout, tagged)}({source})")
        else:
            self._run.append(("x", ""))

    def _tag_writer(self, layout: Struct, tagged: list[Field]) -> str:
        """Compile the function that returns a tagged section, and return its name."""
        name = f"tags_of_{layout.name}"
        generator = _EncoderGenerator(self._writer.namespace, self._version, self._flexible)
        writer = generator._writer
        writer.emit("count = 0")
        writer.emit("section = bytearray()")
        for field in sorted(tagged, key=lambda each: each.tag or 0):
            assert field.type != "records", "records in a tagged field would have to be copied"
            writer.emit(f"value = owner.{field.name}")
            with writer.block(f"if {generator._differs(field)}:"):
                writer.emit("tail = bytearray()")
                generator._field(field, "value")
                generator._flush()
                writer.emit("count += 1")
                writer.emit(f"section += uvarint({field.tag})")
                writer.emit("section += uvarint(len(tail))")
                writer.emit("section += tail")
        writer.emit("return uvarint(count) + section")
        writer.compile(name, "owner", f"tags of {layout.name} v{self._version}")
        return name

    def _differs(self, field: Field) -> str:
        """Return the condition under which a tagged field is sent: its value is not the default."""
        if field.is_optional_struct:
            default = self._writer.constant("default", field.type, self._writer.namespace[field.type])
            return f"value is not None and value != {default}"
        if field.has_fresh_default:
            return "value is None or len(value)"
        return "value is not None" if field.default is None else f"value != {field.default!r}"

    def _field(self, field: Field, source: str) -> None:
        nullable = field.nullable.has(self._version)
        if field.is_array:
            self._array(field, source, nullable)
        elif field.struct is not None and nullable:
            self._nullable_struct(field.struct, source)
        elif field.struct is not None:
            self._struct(field.struct, source)
        else:
            self._primitive(field.type, source, nullable)

    def _primitive(self, type_name: str, source: str, nullable: bool) -> None:
        if type_name in NUMBER_LETTERS:
            self._run.append((NUMBER_LETTERS[type_name], source))
        elif type_name == "bool":
            self._run.append(("b", source))
        elif type_name == "uuid":
            self._run.append((f"{UUID_BYTES}s", f"pack_uuid({source})"))
        elif type_name == "records":
            self._records(source, nullable)
        else:
            value = f"{source}.encode()" if type_name == "string" else source
            if nullable:
                self._nullable_value("text", source, value if type_name == "bytes" else "text.encode()", "b''")
            else:
                self._writer.emit(f"text = {value}")
                self._writer.emit("n = len(text)")
            self._length(type_name)
            self._writer.emit("tail += text")

    def _nullable_value(self, variable: str, source: str, value: str, empty: str) -> None:
        """Set a variable and n: to an empty value and -1 for null."""
        self._writer.emit(f"{variable} = {source}")
        with self._writer.block(f"if {variable} is None:"):
            self._writer.emit("n = -1")
            self._writer.emit(f"{variable} = {empty}")
        with self._writer.block("else:"):
            if value != source:
                self._writer.emit(f"{variable} = {value}")
            self._writer.emit(f"n = len({variable})")

    def _length(self, type_name: str) -> None:
        """Write the run and the length n."""
        if not self._flexible:
            self._run.append(("h" if type_name == "string" else "i", "n"))
            self._flush()
            return
        long = "string_uvarint" if type_name == "string" else "uvarint"
        with self._writer.block("if n < 127:"):
            self._writer.emit(f"tail += {self._packed([*self._run, ('B', 'n + 1')])}")
        with self._writer.block("else:"):
            self._flush()
            self._writer.emit(f"tail += {long}(n + 1)")
        self._run = []

    def _records(self, source: str, nullable: bool) -> None:
        self._writer.emit(f"records = {source}")
        with self._writer.block("if records is None:"):
            if nullable:
                self._writer.emit("n = -1")
            else:
                self._writer.emit("raise TypeError('records are null where the protocol has no null')")
        with self._writer.block("elif isinstance(records, (list, tuple)):"):
            self._writer.emit("n = sum(map(len, records))")
        with self._writer.block("else:"):
            self._writer.emit("n = len(records)")
            self._writer.emit("records = (records,)")
        self._length("records")
        with self._writer.block("if n > 0:"):
            self._writer.emit("out.append(tail)")
            self._writer.emit("out.extend(records)")
            self._writer.emit("tail = bytearray()")

    def _array(self, field: Field, source: str, nullable: bool) -> None:
        self._depth += 1
        items, item = f"items{self._depth}", f"item{self._depth}"
        if nullable:
            self._nullable_value(items, source, source, "()")
        else:
            self._writer.emit(f"{items} = {source}")
            self._writer.emit(f"n = len({items})")
        self._length("array")
        letter = NUMBER_LETTERS.get(field.type)
        if letter is not None:
            packers = self._writer.constant("packers", letter, lambda: wire.ArrayPackers(letter))
            self._writer.emit(f"tail += {packers}[len({items})].pack(*{items})")
        else:
            with self._writer.block(f"for {item} in {items}:"):
                if field.struct is not None:
                    self._struct(field.struct, item)
                else:
                    self._primitive(field.type, item, nullable=False)
                self._flush()
        self._depth -= 1

    def _nullable_struct(self, layout: Struct, source: str) -> None:
        """A struct behind a byte: -1 for null, 1 for a struct (KIP-893)."""
        self._flush()
        self._depth += 1
        inner = f"inner{self._depth}"
        self._writer.emit(f"{inner} = {source}")
        with self._writer.block(f"if {inner} is None:"):
            self._writer.emit(r"tail += b'\xff'")
        with self._writer.block("else:"):
            self._writer.emit(r"tail += b'\x01'")
            self._struct(layout, inner)
            self._flush()
        self._depth -= 1
