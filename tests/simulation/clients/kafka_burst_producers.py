"""A producer of a simulated run that sends bursts: many requests are under way before the first one is answered.

A leader that is cut off while it takes a burst is left with a tail that nobody else has, of many entries and perhaps of
several segments. Producers that wait for each answer leave a deposed leader with an entry or two.
"""

import asyncio
from random import Random

from kafka_api.protocol.api_keys import ApiKey
from kafka_api.protocol.messages import Message
from tests.simulation.clients.kafka_producers import Producer, SentRecords
from tests.simulation.clients.kafka_wire import Address, KafkaWire, LostError, NotSentError
from tests.simulation.clients.recorder import Recorder

# How much longer than other producers it pauses: it sends as much as they do.
_PAUSES = 3.0


class SimBurstProducer(Producer):
    """At acks=1, a burst goes to one partition; each of its requests is tried once."""

    def __init__(self, wire: KafkaWire, recorder: Recorder, rng: Random, topic: str, partitions: int, **shared) -> None:
        super().__init__(wire, recorder, rng, topic, partitions, **shared)
        self.acks = "1"
        self.value_bytes = rng.choice([50, 5_000])
        self._pause *= _PAUSES

    async def _send(self) -> None:
        partition = self.rng.randrange(self._partitions)
        try:
            address, _ = await self.wire.leader(self.topic, partition)
        except (NotSentError, LostError):
            return
        for records, sent in await self._begin(address, partition):
            try:
                answer = await self.wire.answer(address, sent)
            except LostError as error:
                self.wire.forget(self.topic, partition)
                records.end("info", None, str(error))
            else:
                self._end(records, answer)

    async def _begin(self, address: Address, partition: int) -> list[tuple[SentRecords, "asyncio.Future[Message]"]]:
        """Send a burst, as far as there is a connection; return what is under way."""
        begun = []
        for _ in range(self.rng.choice([2, 6, 12])):
            records = SentRecords(self, partition, 1)
            try:
                request = self._request([records])
                begun.append((records, await self.wire.begin(address, ApiKey.PRODUCE, self._version, request)))
            except NotSentError as error:
                self.wire.forget(self.topic, partition)
                records.end("fail", None, str(error))
                break
        return begun
