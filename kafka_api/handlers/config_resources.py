"""What a configuration belongs to: from the type and name of a resource to a topic, or to this broker."""

import re
from enum import IntEnum

from cluster.errors import ClusterError, UnknownTopicError
from cluster.topic_changes import check_topic_name
from cluster.topic_table import Topic
from kafka_api.error_mapping import error_code
from kafka_api.protocol.error_codes import ErrorCode
from kafka_api.request_context import RequestContext
from model.ids import NodeId

_NAME_SHOWN_MAX = 260
# As Kafka writes one.
_NODE_ID = re.compile("0|[1-9][0-9]{0,9}")


class ResourceType(IntEnum):
    """Kinds of resources that have configurations here, with the numbers of the protocol."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


# Kafka's client metrics and groups: none of their keys exists here, so nothing is ever set on one.
_WITHOUT_CONFIGURATION = frozenset({16, 32})


class ResourceRefusedError(Exception):
    """A resource that does not exist, or of which there is no configuration; carries the code for the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def find_config_topic(context: RequestContext, name: str) -> Topic:
    """Return a topic.

    Raises:
        ResourceRefusedError: There is none, or could be none of that name.
    """
    topic = context.node.controller.topics.get(name)
    if topic is None:
        try:
            check_topic_name(name)
            raise UnknownTopicError(f"no topic {name!r}")
        except ClusterError as error:
            raise ResourceRefusedError(error_code(error), str(error)) from error
    return topic


def is_this_broker(context: RequestContext, name: str) -> bool:
    """Return whether `name` is this broker's node id; False for the empty name, which stands for all brokers.

    Raises:
        ResourceRefusedError: Another broker, or no number. A broker answers only for itself.
    """
    if name == "":
        return False
    if name != str(context.node.options.node_id):
        shown = name[:_NAME_SHOWN_MAX]
        raise ResourceRefusedError(
            ErrorCode.INVALID_REQUEST, f"broker {shown!r}: this is broker {context.node.options.node_id}; ask that one"
        )
    return True


def broker_to_alter(context: RequestContext, name: str) -> NodeId | None:
    """Return the broker whose configuration is to be altered, of the whole cluster; None, the empty name, for all.

    Raises:
        ResourceRefusedError: No number, or no broker has it.
    """
    if name == "":
        return None
    shown = name[:_NAME_SHOWN_MAX]
    if not _NODE_ID.fullmatch(name):
        raise ResourceRefusedError(ErrorCode.INVALID_REQUEST, f"broker {shown!r}: a broker is named by its node id")
    node = NodeId(int(name))
    if context.node.controller.members.get(node) is None:
        raise ResourceRefusedError(ErrorCode.INVALID_REQUEST, f"broker {shown} is not in the cluster")
    return node


def has_nothing_set(resource_type: int, name: str) -> bool:
    """Return whether a resource is of a kind that is described as Kafka would while nothing is set, and takes nothing.

    kafka-configs describes every group that it has found by ListGroups.
    """
    return resource_type in _WITHOUT_CONFIGURATION and name != ""


def unknown_type(resource_type: int) -> ResourceRefusedError:
    """Return the refusal of a type of resource that has no configuration here."""
    return ResourceRefusedError(
        ErrorCode.INVALID_REQUEST,
        f"resource type {resource_type}: only topics (2) and brokers (4) have configurations,"
        " and loggers of brokers (8) levels",
    )
