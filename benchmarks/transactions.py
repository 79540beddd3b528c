"""Transactions, part by part: each part fits a window of some minutes in which a machine is idle.

    python -m benchmarks transactions                              all parts, one after the other
    python -m benchmarks transactions_tv2_1 --pairs 5 --seconds 10 --warm-up 30
    python -m benchmarks transactions_ids --pairs 10               so many kills

* `transactions_tv1_1`, `transactions_tv1_10`, `transactions_tv2_1`, `transactions_tv2_10`: transactions/s of one
  producer, by both protocols, on 1 and on 10 partitions; `transactions_tv2_8_producers` of eight producers at once.
* `transactions_visible_tv1`, `transactions_visible_tv2`: from the commit until a reader has the records.
* `transactions_transform`: consume, transform, produce, with a commit each 100 ms.
* `transactions_ids`: 100,000 transactional ids, from the coordinator's office to the first request served; of Raftka
  alone.

All but the last start Apache Kafka as well. Each pair is a run of Raftka, one of Kafka with flush.messages=1 on the
topic and on its own topics, and one of Kafka as shipped. A part starts both clusters (20 s), loads each as long as
--warm-up says, and needs (--seconds + 8 s) for each run: 6 minutes with 5 pairs of 10 s. Each has a file of its own in
benchmarks/results, so that parts may be measured on different days, and repeated alone.

What plain records pay for all this needs two checkouts, this one and one of the last commit before transactions:

    python -m benchmarks.versions OTHER --pairs 15 --seconds 8 --name plain_produce \\
        --cases "produce 1 KiB, 1 partition, acks=all"
    python -m benchmarks.versions OTHER --pairs 15 --name plain_consume --cases "consume 1 GB"

Where the transactional path spends its time in the brokers: `python -m benchmarks.profile_broker transactions`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import transactional_ids
from benchmarks.compare import transform
from benchmarks.compare.transaction_rate import Case, of_case
from benchmarks.compare.visible_commits import by_protocol
from benchmarks.plan import Plan
from benchmarks.wire.transactor import TV1, TV2

_Part = Callable[[Path, Plan], dict[str, Any]]

BESIDE_KAFKA: dict[str, _Part] = {
    "transactions_tv1_1": of_case(Case(TV1, 1)),
    "transactions_tv1_10": of_case(Case(TV1, 10)),
    "transactions_tv2_1": of_case(Case(TV2, 1)),
    "transactions_tv2_10": of_case(Case(TV2, 10)),
    # The others are bound by the latency of one producer; this one tells what the brokers can take.
    "transactions_tv2_8_producers": of_case(Case(TV2, 10, producers=8, targets=())),
    "transactions_visible_tv1": by_protocol(TV1),
    "transactions_visible_tv2": by_protocol(TV2),
    "transactions_transform": transform.measure,
}
ALONE: dict[str, _Part] = {"transactions_ids": transactional_ids.measure}
PARTS = [*BESIDE_KAFKA, *ALONE]
