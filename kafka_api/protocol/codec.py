"""Frames <-> messages, both directions. The server's side: `decode_request_header`, `decode_request`,
`encode_response`; the client's side is for tests and tools.

Codecs are compiled when a key, version and direction first occurs (about a millisecond), and kept.
"""

import struct
from functools import cache, lru_cache
from typing import NamedTuple

from kafka_api.protocol import wire
from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.decoder_generator import DECODE_ERRORS, Decoder, compile_decoder
from kafka_api.protocol.encoder_generator import ENCODE_ERRORS, Encoder, compile_encoder
from kafka_api.protocol.errors import InvalidMessageError, MalformedRequestError, UnsupportedVersionError
from kafka_api.protocol.message_classes import Buffer, Message
from kafka_api.protocol.schema.message_schema import Direction, MessageSchema, schema_of

_LENGTH_BYTES = 4
_LENGTH = struct.Struct(">i")
# api_key, api_version, correlation_id, length of client_id
_REQUEST_HEADER = struct.Struct(">hhih")
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """Header v1 or v2; the body begins at `body_position` of the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def versions(api_key: int) -> tuple[int, int]:
    """Return the lowest and the highest version of the schema; a broker advertises what it implements of them.

    Raises:
        UnsupportedVersionError: The schema does not have this key.
    """
    low, high = schema_of(api_key, Direction.REQUEST).versions
    return low, high


def is_flexible(api_key: int, api_version: int) -> bool:
    """Return whether a version has compact lengths and tagged fields; the request header then ends with tags too.

    Raises:
        UnsupportedVersionError: The schema does not have this key. An unknown version of a known key is not an error.
    """
    return schema_of(api_key, Direction.REQUEST).flexible.has(api_version)


# Bounded: clients choose these numbers.
@lru_cache(1024)
def _header_has_tags(api_key: int, api_version: int) -> bool:
    try:
        return is_flexible(api_key, api_version)
    except UnsupportedVersionError:
        return False


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Decode the header of a request frame (without its length prefix).

    The header is decoded for unknown keys and versions too, since ApiVersions must be answered whatever its version;
    `body_position` means nothing then.

    Raises:
        MalformedRequestError: It is no request header.
    """
    view = memoryview(frame)
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEADER.unpack_from(view)
        position = _REQUEST_HEADER.size
        client_id = None
        if length >= 0:
            stop = position + length
            if stop > len(view):
                raise wire.truncated()
            client_id = str(view[position:stop], "utf-8")
            position = stop
        if _header_has_tags(api_key, api_version):
            position = wire.skip_tagged_fields(view, position, len(view))
    except DECODE_ERRORS as error:
        raise MalformedRequestError(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def decode_request(api_key: int, api_version: int, frame: Buffer, position: int) -> Message:
    """Decode the body of a request, from `position` to the end of the frame.

    Records are views of the frame; everything else is copied. Bytes that follow the body are ignored, as Kafka does:
    librdkafka 2.16 sends a Metadata v13 for all topics with a null array of four bytes instead of one.

    Raises:
        UnsupportedVersionError: The schema does not have this key or version.
        MalformedRequestError: The body is not such a request, or lists more than `wire.REQUEST_ELEMENTS_MAX` things.
    """
    return _decode(api_key, api_version, Direction.REQUEST, memoryview(frame), position)[0]


def decode_response(api_key: int, api_version: int, frame: Buffer) -> tuple[int, Message]:
    """Decode a response frame (without its length prefix), the client's direction.

    Returns:
        The correlation id and the message.

    Raises:
        UnsupportedVersionError: The schema does not have this key or version.
        MalformedRequestError: The frame is not such a response, or something follows it.
    """
    view = memoryview(frame)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view)
        position = _CORRELATION_ID.size
        if _response_header_has_tags(api_key, api_version):
            position = wire.skip_tagged_fields(view, position, len(view))
    except DECODE_ERRORS as error:
        raise MalformedRequestError(f"response header: {error}") from error
    message, end = _decode(api_key, api_version, Direction.RESPONSE, view, position)
    if end != len(view):
        raise MalformedRequestError(f"{_name(api_key)} response v{api_version}: {len(view) - end} bytes follow")
    return correlation_id, message


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Message) -> list[Buffer]:
    """Encode a response with its header and length prefix.

    Returns:
        Buffers to be written one after the other. Records are in it by reference, everything else is fresh.

    Raises:
        UnsupportedVersionError: The schema does not have this key or version.
        InvalidMessageError: A field has a value that the protocol cannot say.
    """
    head = bytearray(_LENGTH_BYTES)
    head += _CORRELATION_ID.pack(correlation_id)
    if _response_header_has_tags(api_key, api_version):
        head.append(0)
    return _encode(api_key, api_version, Direction.RESPONSE, message, head)


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Message
) -> list[Buffer]:
    """Encode a request with its header and length prefix, the client's direction.

    Returns:
        Buffers to be written one after the other, as `encode_response` does.

    Raises:
        UnsupportedVersionError: The schema does not have this key or version.
        InvalidMessageError: A field has a value that the protocol cannot say.
    """
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    if length > wire.STRING_BYTES_MAX:
        raise InvalidMessageError(f"a client id of {length} bytes, {wire.STRING_BYTES_MAX} allowed")
    head = bytearray(_LENGTH_BYTES)
    head += _REQUEST_HEADER.pack(api_key, api_version, correlation_id, length)
    head += name
    if is_flexible(api_key, api_version):
        head.append(0)
    return _encode(api_key, api_version, Direction.REQUEST, message, head)


def _decode(
    api_key: int, api_version: int, direction: Direction, view: memoryview, position: int
) -> tuple[Message, int]:
    decode = decoder(api_key, api_version, direction)
    try:
        return decode(view, position, len(view))
    except DECODE_ERRORS as error:
        raise MalformedRequestError(f"{_name(api_key)} {direction.value} v{api_version}: {error}") from error


def _encode(api_key: int, api_version: int, direction: Direction, message: Message, head: bytearray) -> list[Buffer]:
    encode = encoder(api_key, api_version, direction)
    out: list[Buffer] = []
    try:
        out.append(encode(message, out, head))
        _LENGTH.pack_into(head, 0, sum(map(len, out)) - _LENGTH_BYTES)
    except ENCODE_ERRORS as error:
        raise InvalidMessageError(f"{_name(api_key)} {direction.value} v{api_version}: {error}") from error
    return out


@cache
def decoder(api_key: int, api_version: int, direction: Direction) -> Decoder:
    """Return the bare decoder of a body. It raises `DECODE_ERRORS` and MalformedRequestError, and may stop early.

    Raises:
        UnsupportedVersionError: The schema does not have this key or version.
    """
    elements_max = wire.REQUEST_ELEMENTS_MAX if direction is Direction.REQUEST else None
    return compile_decoder(_schema(api_key, api_version, direction), api_version, elements_max=elements_max)


@cache
def encoder(api_key: int, api_version: int, direction: Direction) -> Encoder:
    """Return the bare encoder of a body. It raises `ENCODE_ERRORS`.

    Raises:
        UnsupportedVersionError: The schema does not have this key or version.
    """
    return compile_encoder(_schema(api_key, api_version, direction), api_version)


def _schema(api_key: int, api_version: int, direction: Direction) -> MessageSchema:
    schema = schema_of(api_key, direction)
    if not schema.versions.has(api_version):
        raise UnsupportedVersionError(f"{_name(api_key)} has no version {api_version}")
    return schema


@lru_cache(1024)
def _response_header_has_tags(api_key: int, api_version: int) -> bool:
    # A client that asks ApiVersions does not know yet what the broker speaks: its header is always the oldest.
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version)


def _name(api_key: int) -> str:
    try:
        return ApiKey(api_key).name
    except ValueError:
        return f"API key {api_key}"
