"""Compiles the decoder of one message version.

The function is flat: every struct is read in line, and consecutive values of fixed width, together with the length
that follows them, are read by one `struct.unpack_from`. Strings and byte strings are copied; records are views.

Bounds: an explicit length is compared with what is left, and an array's count with what its elements take at least,
before anything is allocated. In a request the elements of all arrays together are bounded, too: decoded, an element of
two bytes takes a hundred. Reads of fixed width may run off the end of the buffer; they raise `struct.error` or
`IndexError`, which the caller turns into a named error (`DECODE_ERRORS`).
"""

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from kafka_api.protocol import wire
from kafka_api.protocol.message_classes import Message, fresh_default, struct_classes
from kafka_api.protocol.schema.message_schema import Field, MessageSchema, Struct
from kafka_api.protocol.source_writer import NUMBER_BYTES, NUMBER_LETTERS, UUID_BYTES, SourceWriter

# (buffer, position, end) -> (message, position behind it); the buffer must not go on behind `end`.
Decoder: TypeAlias = Callable[[memoryview, int, int], tuple[Message, int]]

# What a decoder raises for malformed input besides MalformedRequestError.
DECODE_ERRORS = (struct.error, IndexError, UnicodeDecodeError)


def compile_decoder(schema: MessageSchema, version: int, *, elements_max: int | None = None) -> Decoder:
    """Return the decoder of a version that the schema has; it takes at most `elements_max` elements of arrays."""
    assert schema.versions.has(version)
    namespace: dict[str, Any] = {
        "new": object.__new__,
        "unpack_many": struct.unpack_from,
        **{name: getattr(wire, name) for name in ("truncated", "bad_length", "bad_tag", "bad_presence", "too_many")},
        **{name: getattr(wire, name) for name in ("uvarint_rest", "string_length_rest", "read_uvarint")},
        "skip_tagged_fields": wire.skip_tagged_fields,
        **struct_classes(schema.name),
    }
    generator = _DecoderGenerator(namespace, version, schema.flexible.has(version), elements_max)
    return generator.message(schema)


class _DecoderGenerator:
    def __init__(self, namespace: dict[str, Any], version: int, flexible: bool, elements_max: int | None) -> None:
        self._writer = SourceWriter(namespace)
        self._version = version
        self._flexible = flexible
        self._elements_max = elements_max
        # Values of fixed width that are not read yet: struct letter and the variable or attribute it goes to.
        self._run: list[tuple[str, str]] = []
        self._after_run: list[str] = []
        self._depth = 0

    def message(self, schema: MessageSchema) -> Decoder:
        if self._elements_max is not None:
            self._writer.emit(f"left = {self._elements_max}")
        self._struct(schema.struct, "message")
        self._flush()
        self._writer.emit("return message, pos")
        return self._writer.compile("decode", "buf, pos, end", f"decoder of {schema.name} v{self._version}")

    def _flush(self) -> None:
        if not self._run:
            return
        letters = "".join(letter for letter, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        if letters == "B":
            self._writer.emit(f"{targets} = buf[pos]")
        else:
            unpack = self._writer.constant("unpack", letters, lambda: struct.Struct(">" + letters).unpack_from)
            self._writer.emit(f"{targets}{'' if len(self._run) > 1 else ','} = {unpack}(buf, pos)")
        self._writer.emit(f"pos += {struct.calcsize('>' + letters)}")
        for line in self._after_run:
            self._writer.emit(line)
        self._run, self._after_run = [], []

    def _struct(self, layout: Struct, variable: str) -> None:
        """Read a struct into a new object. Leaves a run behind."""
        self._writer.emit(f"{variable} = new({layout.name})")
        tagged = []
        for field in layout.fields:
            present = field.versions.has(self._version)
            is_tagged = present and field.tagged.has(self._version)
            if is_tagged:
                tagged.append(field)
            if is_tagged or not present:
                default = fresh_default(field) if field.has_fresh_default else repr(field.default)
                self._writer.emit(f"{variable}.{field.name} = {default}")
            else:
                self._field(field, f"{variable}.{field.name}")
        if self._flexible:
            self._tagged_section(layout, tagged, variable)

    def _tagged_section(self, layout: Struct, tagged: list[Field], variable: str) -> None:
        self._run.append(("B", "tags"))
        self._flush()
        with self._writer.block("if tags:"):
            if tagged:
                reader = self._tag_reader(layout, tagged)
                self._writer.emit(f"pos = {reader}(buf, pos - 1, end, {variable})")
            else:
                self._writer.emit("pos = skip_tagged_fields(buf, pos - 1, end)")

    def _tag_reader(self, layout: Struct, tagged: list[Field]) -> str:
        """Compile the function that reads a tagged section with known tags, and return its name."""
        name = f"read_tags_of_{layout.name}"
        generator = _DecoderGenerator(self._writer.namespace, self._version, self._flexible, None)
        writer = generator._writer
        writer.emit("count, pos = read_uvarint(buf, pos)")
        with writer.block("for _ in range(count):"):
            writer.emit("tag, pos = read_uvarint(buf, pos)")
            writer.emit("size, pos = read_uvarint(buf, pos)")
            writer.emit("end = pos + size")
            with writer.block("if end > outer_end:"):
                writer.emit("raise truncated()")
            for field in tagged:
                # An array there would have to count against the message's own.
                assert self._elements_max is None or not _has_arrays(field)
                with writer.block(f"if tag == {field.tag}:"):
                    generator._field(field, f"owner.{field.name}")
                    generator._flush()
                    with writer.block("if pos != end:"):
                        writer.emit("raise bad_tag(tag)")
            writer.emit("pos = end")
        writer.emit("return pos")
        writer.compile(name, "buf, pos, outer_end, owner", f"tags of {layout.name} v{self._version}")
        return name

    def _field(self, field: Field, target: str) -> None:
        nullable = field.nullable.has(self._version)
        if field.is_array:
            self._array(field, target, nullable)
        elif field.struct is not None and nullable:
            self._nullable_struct(field.struct, target)
        elif field.struct is not None:
            self._nested_struct(field.struct, target)
        else:
            self._primitive(field.type, target, nullable)

    def _primitive(self, type_name: str, target: str, nullable: bool) -> None:
        if type_name in NUMBER_LETTERS:
            self._run.append((NUMBER_LETTERS[type_name], target))
        elif type_name == "bool":
            self._run.append(("?", target))
        elif type_name == "uuid":
            variable = f"uuid{len(self._run)}"
            self._run.append((f"{UUID_BYTES}s", variable))
            self._after_run.append(f"{target} = {variable}.hex()")
        else:
            self._length(type_name)
            self._writer.emit("stop = pos + n")
            value = {
                "string": "str(buf[pos:stop], 'utf-8')",
                "bytes": "buf[pos:stop].tobytes()",
                "records": "buf[pos:stop]",
            }[type_name]
            if nullable:
                with self._writer.block("if n < 0:"):
                    self._writer.emit(f"{target} = None")
                with self._writer.block("elif stop > end:"):
                    self._writer.emit("raise bad_length(n)")
                with self._writer.block("else:"):
                    self._writer.emit(f"{target} = {value}")
                    self._writer.emit("pos = stop")
            else:
                with self._writer.block("if n < 0 or stop > end:"):
                    self._writer.emit("raise bad_length(n)")
                self._writer.emit(f"{target} = {value}")
                self._writer.emit("pos = stop")

    def _length(self, type_name: str) -> None:
        """Read a length into n, below 0 for null."""
        if not self._flexible:
            self._run.append(("h" if type_name == "string" else "i", "n"))
            self._flush()
            return
        self._run.append(("B", "n"))
        self._flush()
        rest = "string_length_rest" if type_name == "string" else "uvarint_rest"
        with self._writer.block("if n > 127:"):
            self._writer.emit(f"n, pos = {rest}(buf, pos, n)")
        self._writer.emit("n -= 1")

    def _array(self, field: Field, target: str, nullable: bool) -> None:
        self._length("array")
        smallest = max(1, self._smallest(field, element=True))
        if nullable:
            with self._writer.block("if n < 0:"):
                self._writer.emit(f"{target} = None")
            with self._writer.block(f"elif n * {smallest} > end - pos:"):
                self._writer.emit("raise bad_length(n)")
            with self._writer.block("else:"):
                self._elements(field, target)
        else:
            with self._writer.block(f"if n < 0 or n * {smallest} > end - pos:"):
                self._writer.emit("raise bad_length(n)")
            self._elements(field, target)

    def _elements(self, field: Field, target: str) -> None:
        if self._elements_max is not None:
            self._writer.emit("left -= n")
            with self._writer.block("if left < 0:"):
                self._writer.emit(f"raise too_many({self._elements_max})")
        letter = NUMBER_LETTERS.get(field.type)
        if letter is not None:
            self._writer.emit(f"{target} = list(unpack_many(f'>{{n}}{letter}', buf, pos))")
            self._writer.emit(f"pos += n * {NUMBER_BYTES[field.type]}")
            return
        self._depth += 1
        items, item = f"items{self._depth}", f"item{self._depth}"
        self._writer.emit(f"{items} = {target} = []")
        with self._writer.block("for _ in range(n):"):
            if field.struct is not None:
                self._struct(field.struct, item)
            else:
                self._primitive(field.type, item, nullable=False)
            self._flush()
            self._writer.emit(f"{items}.append({item})")
        self._depth -= 1

    def _nullable_struct(self, layout: Struct, target: str) -> None:
        """A struct behind a byte: -1 for null, 1 for a struct (KIP-893)."""
        self._run.append(("b", "n"))
        self._flush()
        with self._writer.block("if n == -1:"):
            self._writer.emit(f"{target} = None")
        with self._writer.block("elif n == 1:"):
            self._nested_struct(layout, target)
            self._flush()
        with self._writer.block("else:"):
            self._writer.emit("raise bad_presence(n)")

    def _nested_struct(self, layout: Struct, target: str) -> None:
        self._depth += 1
        inner = f"inner{self._depth}"
        self._struct(layout, inner)
        self._flush()
        self._writer.emit(f"{target} = {inner}")
        self._depth -= 1

    def _smallest(self, field: Field, *, element: bool = False) -> int:
        """Return how many bytes a field, or one element of an array, takes at least."""
        if not element and (field.is_array or field.nullable.has(self._version)):
            return 1
        if field.struct is not None:
            present = [
                inner
                for inner in field.struct.fields
                if inner.versions.has(self._version) and not inner.tagged.has(self._version)
            ]
            return sum(self._smallest(inner) for inner in present) + (1 if self._flexible else 0)
        return NUMBER_BYTES.get(field.type) or (UUID_BYTES if field.type == "uuid" else 1)


def _has_arrays(field: Field) -> bool:
    return field.is_array or (field.struct is not None and any(_has_arrays(inner) for inner in field.struct.fields))
