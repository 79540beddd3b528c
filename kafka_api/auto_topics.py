"""Topics that exist because somebody asked for them: created in the background, a bounded number at a time."""

import asyncio
import logging
from collections.abc import Iterable

from cluster.admin_messages import CreateTopicRequest
from cluster.errors import ClusterError, TopicExistsError
from cluster.node import Node
from cluster.topic_table import INTERNAL_TOPICS
from kafka_api.options import KafkaOptions, OptionsInForce, automatic_replication_factor
from runtime.gate import Gate

_PENDING_MAX = 64
_TIMEOUT = 10.0
# A name that was refused is not tried again before: clients ask many times a second.
_PAUSE_AFTER_REFUSAL = 1.0
_logger = logging.getLogger("kafka")


def default_replication_factor(node: Node, options: KafkaOptions) -> int:
    """Return the replicas of a topic whose creator does not say."""
    return options.default_replication_factor or automatic_replication_factor(node.controller.members.lasting_count())


class AutoTopics:
    """Creates topics with the broker's defaults; whoever asked asks again until there is a leader."""

    def __init__(self, node: Node, options: OptionsInForce) -> None:
        self._node = node
        self._in_force = options
        self._gate = Gate("auto topics")
        self._pending: set[str] = set()

    async def stop(self) -> None:
        """Create nothing more."""
        await self._gate.close()

    def request(self, names: Iterable[str]) -> set[str]:
        """Begin to create topics of these valid names, which do not exist; return those that are under way.

        A name that is not returned is not created: there are too many at once, or topics are not created so here.
        """
        if not self._in_force.current.auto_create_topics or self._gate.is_closed:
            return set()
        under_way = set()
        for name in names:
            if name not in self._pending:
                # Brokers create internal ones, in their own shape.
                if name in INTERNAL_TOPICS or len(self._pending) >= _PENDING_MAX:
                    continue
                self._pending.add(name)
                self._gate.spawn(self._create(name), name=f"create {name}")
            under_way.add(name)
        return under_way

    async def _create(self, name: str) -> None:
        options = self._in_force.current
        factor = default_replication_factor(self._node, options)
        request = CreateTopicRequest(name, options.num_partitions, factor, [], {}, False, _TIMEOUT)
        try:
            await self._node.admin.create_topic(request)
            _logger.info("created topic %s, for which a client asked", name)
        except TopicExistsError:
            pass  # Another broker was asked, too, and this one's table is behind.
        except ClusterError as error:
            _logger.warning("topic %s, for which a client asked, was not created: %s", name, error)
            await asyncio.sleep(_PAUSE_AFTER_REFUSAL)
        finally:
            self._pending.discard(name)
