"""Examples of every command, as its help shows them.

A test types them in this order against a new cluster of three brokers, so each can use what those before it have made.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_SHOWN_MAX = 8
_RUNS_ON = "it runs until Ctrl-C"
_LIVING = "tests of brokers and moves type it, in clusters of their own"
_TRANSACTIONS = "tests of transactions type it, with what they have begun"
_SPARK = "it starts Spark, which `make test-slow` tests elsewhere"


class Example(NamedTuple):
    """A line for a shell; `shown_only` says why the test does not type it, and is empty if it does."""

    line: str
    shown_only: str = ""


# By the path of the command, in the order in which they are typed.
EXAMPLES: Mapping[str, Sequence[Example]] = {
    "version": (Example("raftka version"),),
    "dev": (
        Example("raftka dev", _RUNS_ON),
        Example("raftka dev -n 1 --ephemeral", _RUNS_ON),
        Example("raftka dev --detach", "the cluster of the test is started so, on free ports"),
    ),
    "dev status": (Example("raftka dev status"), Example("raftka dev status -f json")),
    "topic create": (
        Example("raftka topic create orders"),
        Example("raftka topic create payments -p 12 -r 3 -c retention.ms=604800000"),
    ),
    "topic list": (Example("raftka topic list"), Example("raftka topic list -f json")),
    "produce": (
        Example("echo hello | raftka produce orders"),
        Example("echo alice:paid | raftka produce orders -K :"),
        Example("echo paid | raftka produce orders -k alice -H source=web -z zstd"),
        Example("""echo '{"key": "bob", "value": "sent"}' | raftka produce orders -f json -o json"""),
        Example("printf 'bob\\0sent\\0' | raftka produce orders -f '%k\\0%s\\0'"),
        Example("raftka produce orders --transactional orders.txt", _TRANSACTIONS),
    ),
    "consume": (
        Example("raftka consume orders -e"),
        Example("raftka consume orders -n 1 -f json"),
        Example("raftka consume orders -g billing -e"),
        Example("raftka consume orders -o -2 -e -f '%p %o %k: %s\\n'"),
        Example("raftka consume orders -o @-1h30m -e"),
        Example("raftka consume orders --read-committed -e"),
        Example("raftka consume orders -o end", _RUNS_ON),
    ),
    "group list": (Example("raftka group list"),),
    "group describe": (Example("raftka group describe billing"), Example("raftka group describe billing -f json")),
    "group seek": (
        Example("raftka group seek billing --to start --dry-run"),
        Example("raftka group seek billing --to @-1h --topic orders"),
        Example("raftka group seek audit --to-group billing"),
    ),
    "topic describe": (
        Example("raftka topic describe orders"),
        Example("raftka topic describe orders --configs"),
        Example("raftka topic describe orders --admin 127.0.0.1:9644"),
    ),
    "topic alter-config": (
        Example("raftka topic alter-config orders --set retention.ms=86400000 --dry-run"),
        Example("raftka topic alter-config orders --set retention.ms=86400000"),
        Example("raftka topic alter-config orders --delete retention.ms"),
    ),
    "topic alter-replication": (
        Example("raftka topic alter-replication orders -r 3 --dry-run"),
        Example("raftka topic alter-replication orders -r 1 --wait", _LIVING),
    ),
    "topic add-partitions": (
        Example("raftka topic add-partitions payments -n 4 --dry-run"),
        Example("raftka topic add-partitions payments -n 4"),
    ),
    "topic trim-prefix": (
        Example("raftka topic trim-prefix orders -o end --dry-run"),
        Example("raftka topic trim-prefix orders -o @-7d"),
    ),
    "broker list": (Example("raftka broker list"), Example("raftka broker list -f json")),
    "broker drain": (
        Example("raftka broker drain 2 --dry-run"),
        Example("raftka broker drain 2"),
    ),
    "broker undrain": (Example("raftka broker undrain 2"),),
    "broker decommission": (
        Example("raftka broker decommission 1 --dry-run", _LIVING),
        Example("raftka broker decommission 1", _LIVING),
        Example("raftka broker decommission 1 --no-wait", _LIVING),
    ),
    "broker recommission": (Example("raftka broker recommission 1", _LIVING),),
    "broker remove": (Example("raftka broker remove 1", _LIVING),),
    "broker replace": (
        Example("raftka broker replace 3 --dry-run", _LIVING),
        Example("raftka broker replace 3", _LIVING),
    ),
    "partition list": (Example("raftka partition list"), Example("raftka partition list orders -f json")),
    "partition transfer-leadership": (
        Example("raftka partition transfer-leadership orders 0 --dry-run"),
        Example("raftka partition transfer-leadership orders 0"),
    ),
    "partition elect-preferred": (
        Example("raftka partition elect-preferred --all --dry-run"),
        Example("raftka partition elect-preferred orders 0"),
        Example("raftka partition elect-preferred --all"),
    ),
    "partition move": (
        Example("raftka partition move orders/0 --to 2,3,4 --dry-run", _LIVING),
        Example("raftka partition move orders/0 orders/1 --to 2,3,4 --wait", _LIVING),
    ),
    "partition moves": (Example("raftka partition moves"), Example("raftka partition moves -f json")),
    "partition cancel": (
        Example("raftka partition cancel orders/0", _LIVING),
        Example("raftka partition cancel --all"),
    ),
    "txn list": (
        Example("raftka txn list"),
        Example("raftka txn list --state Ongoing -f json"),
    ),
    "txn describe": (Example("raftka txn describe billing-1", _TRANSACTIONS),),
    "txn find-hanging": (
        Example("raftka txn find-hanging"),
        Example("raftka txn find-hanging --topic orders --max-transaction-timeout 30"),
    ),
    "txn abort": (
        Example("raftka txn abort orders/0 --producer-id 4000 --dry-run", _TRANSACTIONS),
        Example("raftka txn abort orders/0 --start-offset 1207", _TRANSACTIONS),
    ),
    "cluster info": (Example("raftka cluster info"), Example("raftka cluster info --brokers 127.0.0.1:9092")),
    "cluster health": (Example("raftka cluster health"), Example("raftka cluster health -f json")),
    "cluster config list": (Example("raftka cluster config list --changed"),),
    "cluster config get": (Example("raftka cluster config get log.retention.ms"),),
    "cluster config set": (
        Example("raftka cluster config set log.retention.ms=86400000 --dry-run"),
        Example("raftka cluster config set replica.lag.time.max.ms=3000 -n 1"),
    ),
    "cluster config unset": (
        Example("raftka cluster config unset log.retention.ms"),
        Example("raftka cluster config unset replica.lag.time.max.ms -n 1"),
    ),
    "cluster features list": (Example("raftka cluster features list"),),
    "cluster features upgrade": (Example("raftka cluster features upgrade --dry-run"),),
    "cluster features downgrade": (Example("raftka cluster features downgrade transaction.version=1 --dry-run"),),
    "cluster log-level": (
        Example("raftka cluster log-level"),
        Example("raftka cluster log-level raft DEBUG"),
        Example("raftka cluster log-level raft inherit"),
    ),
    "bench": (
        Example("raftka bench -s 5"),
        Example("raftka bench -t orders --size 100 --rate 1000 -s 2 --warmup 0 -f json"),
    ),
    "doctor": (
        Example("raftka doctor"),
        Example("raftka doctor cluster -f json"),
        Example("raftka doctor machine --data-dir ."),
        Example("raftka doctor --admin 127.0.0.1:9644"),
    ),
    "debug bundle": (Example("raftka debug bundle --out bundle.zip"),),
    "debug log": (
        Example("raftka debug log raftka-data/node-1/data", "the broker must not run"),
        Example(
            "raftka debug log raftka-data/node-1/data/groups/raft0 --from 1000 --limit 20", "the broker must not run"
        ),
    ),
    "generate systemd": (
        Example("raftka generate systemd > raftka.service"),
        Example("raftka generate systemd --out /etc/systemd/system/raftka.service", "it writes outside of the folder"),
    ),
    "generate containerfile": (Example("raftka generate containerfile --out Containerfile"),),
    "generate kubernetes": (Example("raftka generate kubernetes --image registry.example/raftka:0.1 > raftka.yaml"),),
    "generate grafana": (Example("raftka generate grafana > raftka-dashboard.json"),),
    "generate alerts": (Example("raftka generate alerts > raftka-alerts.yml"),),
    "config example": (Example("raftka config example > broker.toml"),),
    "start": (
        Example("raftka start --config broker.toml", _RUNS_ON),
        Example("raftka start --node-id 1 --data-dir data", _RUNS_ON),
    ),
    "check": (
        Example("raftka check history.jsonl"),
        Example("raftka check history.jsonl --explain -f json"),
        Example("raftka check --model cas register.jsonl", "the test has no such history"),
    ),
    "chaos": (
        Example("raftka chaos --out run --minutes 1", "it needs root, and minutes"),
        Example("raftka chaos --out run --nemesis kill,pause --seed 7", "it needs root, and minutes"),
        Example("raftka chaos --out run --workload compacted --minutes 2", "it needs root, and minutes"),
        Example("raftka chaos --out run --bootstrap 127.0.0.1:9092", "it takes minutes"),
    ),
    "pipeline list": (Example("raftka pipeline list"),),
    "pipeline run": (
        Example("raftka pipeline run archive --set topics=orders --set to=archive", _SPARK),
        Example("raftka pipeline run counts --file pipelines.toml", _SPARK),
    ),
    "pipeline status": (Example("raftka pipeline status"),),
    "pipeline stop": (Example("raftka pipeline stop archive", "it needs a pipeline that runs"),),
    "archive show": (Example("raftka archive show archive", "it needs an archive"),),
    "archive verify": (Example("raftka archive verify archive --topic orders", _SPARK),),
    "archive restore": (Example("raftka archive restore archive --topic orders --to orders-again", _SPARK),),
    "archive compact": (Example("raftka archive compact archive", _SPARK),),
    "telemetry plot": (
        Example("raftka telemetry plot --parquet tables --out orders.png --topic orders --partition 0", _SPARK),
        Example("raftka telemetry plot --parquet tables --out cluster.png --cluster", _SPARK),
    ),
    "audit": (
        Example("raftka audit history-1.jsonl history-2.jsonl", _SPARK),
        Example("raftka audit --topic history", _SPARK),
    ),
    "completion": (
        Example("source <(raftka completion bash)"),
        Example("raftka completion fish > raftka.fish"),
    ),
    "group delete": (Example("raftka group delete audit billing"),),
    "topic delete": (Example("raftka topic delete payments"),),
    "dev logs": (
        Example("raftka dev logs 1 -n 20"),
        Example("raftka dev logs --follow", _RUNS_ON),
    ),
    "dev kill": (Example("raftka dev kill 2"),),
    "dev restart": (Example("raftka dev restart 2"),),
    "dev add": (Example("raftka dev add", _LIVING),),
    "dev remove": (Example("raftka dev remove 3", _LIVING),),
    "dev stop": (Example("raftka dev stop"),),
}
# Of commands that belong to the first hour with a cluster; what other groups show is the first example of each command.
_FIRST = ("dev", "topic create", "produce", "consume")


def lines_of(path: str) -> list[str]:
    """Return the lines that the help of a command shows; `path` is without `raftka`, that of `raftka` itself empty."""
    if path in EXAMPLES:
        return [each.line for each in EXAMPLES[path]]
    below = [each for each in EXAMPLES if each.startswith(f"{path} ")] if path else _FIRST
    return [EXAMPLES[each][0].line for each in below][:_SHOWN_MAX]


def folded(line: str, columns: int) -> list[str]:
    """Return a line in pieces that are no longer, where it has spaces outside of quotes; a shell reads them as one."""
    import re

    words = re.findall(r"(?:[^\s'\"]|'[^']*'|\"[^\"]*\")+", line)
    pieces = [words[0]]
    for word in words[1:]:
        if len(pieces[-1]) + len(word) + len("  \\") <= columns:
            pieces[-1] += f" {word}"
        else:
            pieces[-1] += " \\"
            pieces.append(f"  {word}")
    return pieces
