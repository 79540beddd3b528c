"""Log lines of the storage of one group."""

import logging
from collections.abc import MutableMapping
from typing import Any

from model.replica_tag import TAG, ReplicaTag


class GroupLogger(logging.LoggerAdapter[logging.Logger]):
    """Prefixes every line with the name of the group: all that storage knows. A replica puts its own in its place."""

    def __init__(self, name: str, part: str = "storage") -> None:
        super().__init__(logging.getLogger(part))
        self._tag = ReplicaTag(name)

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """Add the prefix `[orders-0]`."""
        return self._tag.on(msg), {**kwargs, "extra": {TAG: self._tag}}
