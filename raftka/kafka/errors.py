"""What a command says when a cluster refuses or does not answer; light, for `raftka --help` imports it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

_HINT = "--brokers or RAFTKA_BROKERS names others"


class KafkaClientError(Exception):
    """What a cluster refused or did not answer, in one line."""


class UnansweredError(KafkaClientError):
    """No answer in time of a cluster that is there: what was asked for may be done, or be under way."""


class NoBrokerError(KafkaClientError):
    """No broker answers; `what` is that without the advice, for commands whose options are called otherwise."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} ({_HINT})")
        self.what = what


class NoQuorumError(KafkaClientError):
    """So many brokers do not answer that the others can decide nothing: every request would wait in vain.

    Args:
        silent: Node ids of the brokers that do not answer.
        total: How many brokers the cluster has.
    """

    def __init__(self, silent: Sequence[int], total: int) -> None:
        names = ", ".join(map(str, sorted(silent)))
        is_one = len(silent) == 1
        verb = "does" if is_one else "do"
        self.what = f"no quorum: broker{'' if is_one else 's'} {names} of {total} {verb} not answer"
        self.cure = f"start {'it' if is_one else 'them'}"
        super().__init__(f"{self.what}; {self.cure}")


class OwnWords(NamedTuple):
    """Why a broker does not serve, as its admin port says; `cure` may be empty."""

    reason: str
    cure: str


class NotServingError(KafkaClientError):
    """Addresses take connections, and no broker behind them serves clients; `what` says it, `cure` what to do.

    Args:
        open_addresses: They take connections.
        silent: They take none.
        elsewhere: Where brokers of the same cluster serve.
        told: What the brokers at open addresses say themselves.
    """

    def __init__(
        self,
        open_addresses: Sequence[str],
        silent: Sequence[str],
        elsewhere: Sequence[str] = (),
        told: Mapping[str, OwnWords] = MappingProxyType({}),
    ) -> None:
        self.open_addresses, self.silent, self.elsewhere = tuple(open_addresses), tuple(silent), tuple(elsewhere)
        verb = "takes" if len(open_addresses) == 1 else "take"
        if told:
            why = "; ".join(f"the broker at {address} says: {words.reason}" for address, words in told.items())
        elif elsewhere:
            why = "other brokers of its cluster do, so it is cut off from them or was removed"
        else:
            why = (
                "probably too few brokers of the cluster run to elect a controller, or the broker was removed from the"
                " cluster, or its data directory is retired"
            )
        self.what = f"{', '.join(open_addresses)} {verb} connections, but no Kafka broker serves clients there: {why}"
        cures = list(dict.fromkeys(words.cure for words in told.values() if words.cure))
        if elsewhere:
            cures.append(f"name another broker: --brokers {','.join(elsewhere)}")
        elif not told and silent:
            cures.append(f"nobody listens at {', '.join(silent)}: start the brokers that use these addresses")
        elif not told:
            cures.append(
                "start the other brokers of the cluster, or name one that runs (--brokers); a Raftka broker reports at"
                " /v1/status/ready of its admin port why it does not serve"
            )
        else:
            cures.append("or name another broker with --brokers")
        self.cure = "; ".join(cures)
        super().__init__(f"{self.what}; {self.cure}")


class HangingError(UnansweredError, NotServingError):
    """Addresses take connections, and nothing is ever answered there: a stopped process, or one that hangs.

    What was asked for may have arrived before.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        is_one = len(addresses) == 1
        self.what = (
            f"{', '.join(addresses)} {'takes' if is_one else 'take'} connections and"
            f" {'answers' if is_one else 'answer'} nothing:"
            f" {'the broker hangs or is' if is_one else 'the brokers hang or are'} stopped"
        )
        whom = "it" if is_one else "them"
        self.cure = f"end {whom} and start {whom} again, or name others with --brokers"
        KafkaClientError.__init__(self, f"{self.what} (--brokers names others)")


class NotKafkaError(NotServingError):
    """Something else than Kafka's protocol is spoken at these addresses."""

    def __init__(self, protocols: Mapping[str, str]) -> None:
        spoken = ", ".join(f"{address} ({protocol})" for address, protocol in protocols.items())
        self.what = f"these addresses do not speak the Kafka protocol: {spoken}"
        self.cure = "name the Kafka ports of brokers, 9092 by default; their admin ports speak HTTP"
        KafkaClientError.__init__(self, f"{self.what}; {self.cure}")
