"""Why a broker that takes connections serves nobody, in its own words: its admin port knows, and names the others.

The Kafka port of such a broker ends each connection, and so tells no admin port. Known are those of this user's dev
cluster, and the default port on the same host. There the answer counts only if it is of the broker with that Kafka
address.
"""

from typing import Any

from raftka.admin_client import AdminError, get_json
from raftka.cli.cluster_picture import dev_brokers
from raftka.config_options import BY_KEY
from raftka.kafka.errors import NotServingError, OwnWords
from raftka.kafka.quorum import serving

_SECONDS = 1.0


def with_own_words(error: NotServingError) -> NotServingError:
    """Return the error with what the brokers at its addresses say themselves; the same if no admin port tells."""
    told: dict[str, OwnWords] = {}
    others = set(error.elsewhere)
    for address in error.open_addresses:
        for admin in _admin_ports(address):
            found = _ask(admin, address)
            if found is not None:
                told[address], named = found
                others |= named
                break
    if not told:
        return error
    elsewhere = sorted(serving(sorted(others - set(error.open_addresses))))
    return NotServingError(error.open_addresses, error.silent, elsewhere, told)


def _admin_ports(address: str) -> list[str]:
    """Return the admin ports that may be of the broker with this Kafka address, the surest first."""
    of_dev = [each.admin for each in dev_brokers([address]) if each.kafka == address]
    return [*of_dev, f"{address.rpartition(':')[0]}:{BY_KEY['admin.port'].default}"]


def _ask(admin: str, address: str) -> tuple[OwnWords, set[str]] | None:
    """Return why the broker does not serve, and the Kafka addresses that it knows; None: it serves, or is another."""
    try:
        status, ready = get_json(admin, "/v1/status/ready", _SECONDS)
        if status == 200 or not isinstance(ready, dict) or not ready.get("reason"):
            return None
        _, rows = get_json(admin, "/v1/brokers", _SECONDS)
    except AdminError:
        return None
    named = _kafka_addresses(rows)
    own = named.pop(ready.get("node_id"), "")
    is_of_dev = any(each.admin == admin for each in dev_brokers([address]) if each.kafka == address)
    # A broker that was removed may not be in its own table any more.
    if not is_of_dev and own != address:
        return None
    return OwnWords(str(ready["reason"]), str(ready.get("cure") or "")), set(named.values())


def _kafka_addresses(rows: Any) -> dict[Any, str]:
    found = [each for each in rows if isinstance(each, dict)] if isinstance(rows, list) else []
    return {each.get("node_id"): str(each["kafka"]) for each in found if each.get("kafka")}
