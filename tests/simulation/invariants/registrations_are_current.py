"""RFC 0012: a broker judges what is on its disk by tables that hold all that was committed when it registered."""

from tests.simulation.invariants.invariant import Invariant


class RegistrationsAreCurrent(Invariant):
    """The answer to a registration covers every entry of raft0 that was committed when the broker asked."""

    def on_registered(self, node_id: int, committed: int, covered: int) -> None:
        if covered < committed:
            what = f"node {node_id} was told to apply raft0 up to {covered}; {committed} entries were committed"
            self.violated(None, what)
