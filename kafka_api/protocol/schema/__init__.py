"""The message schema: which fields exist in which version.

- definitions: the checked-in field tables, generated; facts of the protocol, no prose
- message_schema: the tables parsed into `MessageSchema`, `Struct` and `Field`
- derive: developer tool that writes definitions and the stub of `messages` (needs kafka-python, not shipped with us)
- stub: the text of `messages.pyi`
- generated_header: what both generated files begin with
"""
