"""A broker of the version before `raftka.membership`: its own code, without what that version lacks (RFC 0018)."""

from typing import Any

from cluster.joining import JOIN
from cluster.node import Node
from rpc.handshake import FORMAT_WITHOUT_EPOCHS


class OlderNode(Node):
    """It makes links by format 3 only, and knows no joins. Its options offer no level of the feature."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "links":
            self.links._known = self.links._known._replace(formats=(FORMAT_WITHOUT_EPOCHS,))
        if name == "_joins":
            del self.links._server._methods[JOIN.number]
