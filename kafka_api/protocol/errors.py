"""What can be wrong with bytes from a peer, or with a message that is to be sent."""


class ProtocolError(Exception):
    """Base of this package's errors. On the server side every one of them closes the connection."""


class MalformedRequestError(ProtocolError):
    """Bytes that are not the message they claim to be: truncated, too long, or with impossible lengths.

    Also raised for malformed responses by the client direction.
    """


class UnsupportedVersionError(ProtocolError):
    """An API key, or a version of it, that the schema does not have."""


class InvalidMessageError(ProtocolError):
    """A message of ours that cannot be encoded: None where null is not allowed, a number out of its range."""


class InvalidFrameSizeError(ProtocolError):
    """A length prefix that is negative or above the listener's maximum."""
