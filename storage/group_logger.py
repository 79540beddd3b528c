"""Log lines of one group's storage."""

import logging
from collections.abc import MutableMapping
from typing import Any

from model.ids import GroupId
from model.replica_tag import TAG, ReplicaTag


class GroupLogger(logging.LoggerAdapter[logging.Logger]):
    """Prefixes every line with the group: all that storage knows. A replica puts its own in the place of it."""

    def __init__(self, group: GroupId) -> None:
        super().__init__(logging.getLogger("storage"))
        self._group = group

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        """Add the prefix `[group]`."""
        tag = ReplicaTag(self._group)
        return tag.on(msg), {**kwargs, "extra": {TAG: tag}}
