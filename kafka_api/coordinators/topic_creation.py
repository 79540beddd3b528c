"""A coordinator's topic is created when it is first asked for: in the background, one try at a time."""

import asyncio
import logging
from collections.abc import Mapping

from cluster.admin_messages import CreateTopicRequest
from cluster.errors import ClusterError, TopicExistsError
from cluster.node import Node
from kafka_api.options import automatic_replication_factor
from runtime.gate import Gate

_TIMEOUT = 10.0
# Clients ask many times a second.
_PAUSE_AFTER_REFUSAL = 1.0


class TopicCreation:
    """Creates the topic with so many partitions, and min(3, brokers) replicas of each."""

    def __init__(
        self,
        node: Node,
        name: str,
        configs: Mapping[str, str],
        partitions: int,
        gate: Gate,
        logger: logging.Logger,
    ) -> None:
        self._node = node
        self._name = name
        self._configs = configs
        self._partitions = partitions
        self._gate = gate
        self._logger = logger
        self._is_under_way = False

    def request(self) -> None:
        """Begin to create the topic, which does not exist as far as this broker knows."""
        if not self._is_under_way and not self._gate.is_closed:
            self._is_under_way = True
            self._gate.spawn(self._create(), name=f"create {self._name}")

    async def _create(self) -> None:
        factor = automatic_replication_factor(len(self._node.controller.members.all()))
        configs = dict(self._configs)
        request = CreateTopicRequest(self._name, self._partitions, factor, [], configs, False, _TIMEOUT)
        try:
            await self._node.admin.create_topic(request)
            self._logger.info("created %s: %d partitions, %d replicas", self._name, self._partitions, factor)
        except TopicExistsError:
            pass  # Another broker was asked, too, and this one's table is behind.
        except ClusterError as error:
            self._logger.warning("%s was not created: %s", self._name, error)
            await asyncio.sleep(_PAUSE_AFTER_REFUSAL)
        finally:
            self._is_under_way = False
