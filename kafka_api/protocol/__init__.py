"""The Kafka wire protocol: bytes <-> messages. Pure: no clock, no network, no chance.

What handlers and connections use:

- messages: the message classes by name, e.g. `MetadataResponse` and in it `MetadataResponse.MetadataResponseTopic`
- codec: `decode_request_header`, `decode_request`, `encode_response`; `encode_request`, `decode_response` for clients;
  `versions`, `is_flexible`
- framing: `FrameSplitter`, length-prefixed frames out of a byte stream
- api_keys, error_codes: `ApiKey` and `ErrorCode`, by Kafka's names
- errors: `ProtocolError` and what derives from it

A handler sees one class per message, whatever the version: fields that a version does not have hold their default after
decoding and are left out in encoding. Requests are decoded with `records` as views of the frame; a response's
`records` may be one buffer or a list of them, and is sent without a copy.

How it works:

- schema: the field tables, checked in, and the tool that derived them
- message_classes: `Message`, and the classes made from the schema
- decoder_generator, encoder_generator: compile one function per key, version and direction
- error_scanner: compiles what finds the error codes in a response
- source_writer: text of a generated function
- wire: lengths, tags and uuids, called by generated functions
"""
