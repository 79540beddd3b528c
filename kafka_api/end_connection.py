"""How a handler ends a connection instead of answering."""


class EndConnectionError(Exception):
    """Nothing can or should be answered: the connection is closed, and the message, one line, says why in the log."""
