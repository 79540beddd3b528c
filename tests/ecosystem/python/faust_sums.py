"""A Faust application: the running sum of each key, kept in a table with a compacted changelog.

Its guarantee is `at_least_once`: with `exactly_once`, Faust writes to a topic that it does not read outside of its
transactions (its issue 177). The table also has the offset of the last number of each key, so that a number that Faust
reads again counts once.
"""

import sys

import faust

bootstrap, group, source, target, folder, replicas = sys.argv[1:]
application = faust.App(
    group,
    broker=[f"kafka://{address}" for address in bootstrap.split(",")],
    datadir=folder,
    store="rocksdb://?driver=rocksdict",
    processing_guarantee="at_least_once",
    topic_partitions=2,
    topic_replication_factor=int(replicas),
    broker_commit_interval=1.0,
    broker_session_timeout=10.0,
    broker_heartbeat_interval=1.0,
)
numbers = application.topic(source, key_type=str, key_serializer="raw", value_type=int)
sums = application.topic(target, key_type=str, key_serializer="raw", value_type=int)
# Sum and offset.
totals = application.Table("totals", default=lambda: [0, -1], partitions=2, key_type=str)


@application.agent(numbers)
async def add(stream: faust.Stream[int]) -> None:
    async for event in stream.events():
        total, last = totals[event.key]
        if event.message.offset > last:
            total += event.value
            # The sum first: a kill in between must not leave a table that has the number, and nobody who writes its sum.
            await (await sums.send(key=event.key, value=total))
            totals[event.key] = [total, event.message.offset]


sys.argv = ["faust_sums", "worker", "--without-web", "-l", "info"]
application.main()
